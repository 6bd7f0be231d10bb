#include "sim/counting_workload.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <vector>

#include "common/data_plan.h"
#include "common/metric.h"

namespace paracord {
namespace {

DataPlan Plan() {
  DataPlan plan;
  plan.set_records(24);
  plan.set_batch(2);
  plan.set_split_batches(3);
  return plan;
}

BatchId Id(uint64_t split, uint32_t batch) {
  BatchId id;
  id.set_split(split);
  id.set_batch(batch);
  return id;
}

TEST_CASE("one epoch of SGD with rate 1 counts its batches and adds their weights") {
  CountingOptions options;
  options.frozen = true;
  Workload workload = MakeCountingWorkload(options);
  const DataPlan plan = Plan();
  workload.feed->Start(plan);
  REQUIRE(workload.facts.variables_size() == 2);
  std::vector<float> values(options.rows);
  std::vector<float> gradient(options.rows);
  const std::vector<std::span<const float>> value_spans = {values, values};
  const std::vector<std::span<float>> gradient_spans = {gradient, {}};
  float weights = 0;
  for (uint64_t split = 0; split < SplitsPerEpoch(plan); ++split) {
    for (uint32_t batch = 0; batch < BatchesInSplit(plan, split); ++batch) {
      const auto data = workload.feed->Get(Id(split, batch), 3);
      REQUIRE(data.ok());
      REQUIRE(workload.program->ComputeGradients(**data, 0, value_spans, gradient_spans).ok());
      for (size_t row = 0; row < values.size(); ++row) values[row] -= gradient[row];
      weights += BatchWeight(BatchInEpoch(plan, split, batch));
    }
  }
  CHECK(values == std::vector<float>{12, weights, 12, weights, 12, weights});
  std::vector<MetricState> states;
  Batch test;
  test.examples = 5;
  REQUIRE(workload.program->Evaluate(test, value_spans, states).ok());
  CHECK(MetricValue("loss", states[0]) == 12);
}

TEST_CASE("batches fail where they are told to") {
  CountingOptions options;
  options.unreadable = {4};
  options.nonfinite = {5};
  Workload workload = MakeCountingWorkload(options);
  workload.feed->Start(Plan());
  CHECK_FALSE(workload.feed->Get(Id(1, 1), 3).ok());
  const auto poisoned = workload.feed->Get(Id(1, 2), 3);
  REQUIRE(poisoned.ok());
  std::vector<float> gradient(options.rows);
  const std::vector<std::span<float>> gradient_spans = {gradient};
  const auto loss = workload.program->ComputeGradients(**poisoned, 0, {}, gradient_spans);
  REQUIRE(loss.ok());
  CHECK(std::isnan(*loss));
  CHECK(std::isnan(gradient[1]));
}

}  // namespace
}  // namespace paracord
