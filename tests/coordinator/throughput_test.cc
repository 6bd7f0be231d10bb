#include "coordinator/core/throughput.h"

#include <catch2/catch.hpp>

#include "coordinator/core/refusals.h"

namespace paracord {
namespace {

WorkRequest Computed(uint64_t batches, double loss) {
  WorkRequest request;
  request.set_computed(batches);
  request.set_samples(batches * 10);
  request.set_staleness_sum(batches);
  request.set_loss_sum(loss * static_cast<double>(batches));
  return request;
}

TEST_CASE("the recent past is the window under way and the one before it") {
  Throughput throughput;
  CHECK_FALSE(throughput.counted_ms().has_value());
  throughput.Start(0);
  throughput.Count(Computed(4, 2.0), 1000);
  throughput.Tick(2000);
  throughput.Count(Computed(4, 1.0), 2500);
  Throughput::Window recently = throughput.Recently(3000);
  CHECK(recently.length_ms == 3000);
  CHECK(recently.samples == 80);
  CHECK(recently.loss() == Approx(1.5));
  CHECK(recently.staleness() == Approx(1));
  throughput.Tick(4000);
  recently = throughput.Recently(4000);
  CHECK(recently.samples == 40);
  CHECK(recently.loss() == Approx(1.0));
  CHECK(throughput.counted_ms() == 2500);
}

TEST_CASE("a window in which nothing was computed goes on, and a pause counts for nothing") {
  Throughput throughput;
  throughput.Start(0);
  throughput.Tick(5000);
  throughput.Stop(5000);
  CHECK(throughput.Recently(9000).length_ms == 5000);
  throughput.Start(9000);
  CHECK(throughput.Recently(10000).length_ms == 6000);
}

TEST_CASE("only some refusals of a second are logged, and a worker that joins clears its own") {
  Effects effects;
  Refusals refusals(effects);
  const auto refuse = [&](const std::string& logged, int64_t now_ms) {
    refusals.Refuse(7, ExitCode::kInUse, "another has its place", logged, now_ms);
  };
  for (int i = 0; i < 15; ++i) refuse("no", 5000);
  CHECK(effects.Take().size() == 15 + 10);  // every refusal is answered
  refuse("no more", 6000);
  const std::vector<Effect> said = effects.Take();
  REQUIRE(said.size() == 3);
  CHECK(std::get<AnswerJoin>(said[0]).reply.leave().reason() == "another has its place");
  CHECK(std::get<Log>(said[1]).text == "5 more joins were refused");
  CHECK(refusals.last() == "no more");
  refusals.Remember("worker:0", "it finds 39 records");
  CHECK(refusals.by_task().size() == 1);
  refusals.Joined("worker:0");
  CHECK(refusals.by_task().empty());
  CHECK(refusals.last().empty());
}

TEST_CASE("no report says that it took longer than the time since the one before") {
  Throughput throughput;
  WorkRequest report = Computed(4, 1.0);
  report.set_compute_seconds(100);
  report.set_waited_seconds(100);
  throughput.CountSteps(report, /*elapsed_seconds=*/2, /*workers=*/3, /*devices=*/4);
  CHECK(throughput.steps().seconds == 2);
  CHECK(throughput.steps().compute_seconds == 8);  // four devices compute in parallel
  CHECK(throughput.steps().waited_seconds == 2);
  CHECK(throughput.steps().workers == 3);
  throughput.CountSteps(Computed(0, 1.0), 50, 3, 4);  // idle time
  CHECK(throughput.steps().seconds == 2);
  CHECK(throughput.steps().batches == 4);
}

}  // namespace
}  // namespace paracord
