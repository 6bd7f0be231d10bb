// Metrics as text in Prometheus' format.
#include "monitor/metric_set.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("each metric has its help and type once, and the labels of all samples") {
  MetricSet metrics(MetricSet::Labels{{"task", "ps:0"}});
  metrics.Counter("paracord_a_total", "What a is.", 3, {{"outcome", "applied"}});
  metrics.Gauge("paracord_b", "What b is.", 0.5);
  metrics.Counter("paracord_a_total", "What a is.", 4, {{"outcome", "say \"no\""}});
  const std::string text = metrics.Text();
  INFO(text);
  CHECK(Has(text, "# TYPE paracord_a_total counter"));
  CHECK(text.find("# HELP paracord_a_total What a is.") ==
        text.rfind("# HELP paracord_a_total What a is."));
  CHECK(Has(text, "paracord_a_total{task=\"ps:0\",outcome=\"applied\"} 3"));
  CHECK(Has(text, "paracord_a_total{task=\"ps:0\",outcome=\"say \\\"no\\\"\"} 4"));
  CHECK(Has(text, "paracord_b{task=\"ps:0\"} 0.5"));
}

TEST_CASE("a histogram's buckets count all values up to their bounds") {
  const double bounds[] = {1, 2};
  Histogram histogram(bounds);
  for (const double value : {0.5, 1.0, 1.5, 7.0}) histogram.Observe(value);
  MetricSet metrics;
  metrics.Add("paracord_h_seconds", "Help.", histogram);
  const std::string text = metrics.Text();
  INFO(text);
  CHECK(Has(text, "paracord_h_seconds_bucket{le=\"1\"} 2"));
  CHECK(Has(text, "paracord_h_seconds_bucket{le=\"2\"} 3"));
  CHECK(Has(text, "paracord_h_seconds_bucket{le=\"+Inf\"} 4"));
  CHECK(Has(text, "paracord_h_seconds_count 4"));
  CHECK(Has(text, "paracord_h_seconds_sum 10"));
}

TEST_CASE("a process tells of its memory, descriptors, time and version") {
  MetricSet metrics;
  AddProcessMetrics("1.2.3", true, metrics);
  const std::string text = metrics.Text();
  INFO(text);
  CHECK(Has(text, "paracord_build_info{version=\"1.2.3\"} 1"));
  CHECK(Has(text, "paracord_insecure_mode 1"));
  for (const std::string name : {"process_resident_memory_bytes ", "process_open_fds ",
                                 "process_max_fds ", "process_start_time_seconds "}) {
    const size_t at = text.find("\n" + name);
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(text.substr(at + 1 + name.size())) > 0);
  }
}

}  // namespace
}  // namespace paracord
