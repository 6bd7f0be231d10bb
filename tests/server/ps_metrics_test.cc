// The metrics of a ps: outcomes of pushes, durations, and memory by holder.
#include "monitor/metric_set.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

// Returns the value of a sample, given its printed name and labels, or -1.
double Value(const TestPs& ps, const std::string& sample) {
  MetricSet metrics;
  ps.ps->AddMetrics(metrics);
  const std::string text = "\n" + metrics.Text();
  const size_t at = text.find("\n" + sample + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + sample.size() + 2));
}

std::string Updates(const std::string& outcome) {
  return "paracord_ps_updates_total{outcome=\"" + outcome + "\"}";
}

TEST_CASE("each update is counted by what became of it") {
  TestPs ps;
  CHECK(Value(ps, "paracord_ps_partitions") == -1);  // the ps is empty
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  REQUIRE(ps.Exchange(ps.PushOf(0, 1, 1.0f)).ok());
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  REQUIRE(ps.Exchange(ps.PushOf(0, 5, 1.0f)).ok());
  DecodedRequest malformed = ps.PushOf(0, 2, 1.0f);
  malformed.pieces.clear();
  REQUIRE_FALSE(ps.Exchange(malformed).ok());
  CHECK(Value(ps, Updates("applied")) == 6);  // 2 batches for each of 3 trained partitions
  CHECK(Value(ps, Updates("duplicate")) == 3);
  CHECK(Value(ps, Updates("gap")) == 3);
  CHECK(Value(ps, Updates("refused")) == 1);
  CHECK(Value(ps, "paracord_ps_apply_seconds_count") == 4);
  CHECK(Value(ps, "paracord_ps_exchange_seconds_count") == 5);
  CHECK(Value(ps, "paracord_ps_exchange_failures_total") == 1);
  DecodedRequest unstaged = ps.PushOf(0, 2, 1.0f);
  unstaged.header.mutable_staged()->set_id("never came");
  unstaged.header.mutable_staged()->set_calls(1);
  REQUIRE_FALSE(ps.Exchange(unstaged).ok());
  CHECK(Value(ps, "paracord_ps_exchange_failures_total") == 2);
  CHECK(Value(ps, Updates("refused")) == 1);  // the worker sends the push again, whole
}

TEST_CASE("bytes, partitions and the holders of memory are told") {
  TestPs ps;
  ps.Ready();
  DecodedRequest request = ps.PushOf(0, 0, 1.0f);
  ps.AddPulls(request);
  REQUIRE(ps.Exchange(request).ok());
  CHECK(Value(ps, "paracord_ps_received_bytes_total") > 0);
  CHECK(Value(ps, "paracord_ps_sent_bytes_total") >= 21 * 4);  // the model has 21 elements
  CHECK(Value(ps, "paracord_ps_partitions") == 4);
  CHECK(Value(ps, "paracord_ps_trained_partitions") == 3);
  CHECK(Value(ps, "paracord_ps_unhealthy_partitions") == 0);
  CHECK(Value(ps, "paracord_ps_memory_bytes{holder=\"variables\"}") >= 21 * 4);
  CHECK(Value(ps, "paracord_ps_memory_bytes{holder=\"staged\"}") == 0);
  CHECK(Value(ps, "paracord_ps_memory_bytes{holder=\"replies\"}") >= 0);
  CHECK(Value(ps, "paracord_ps_generation") == 1);
}

}  // namespace
}  // namespace paracord
