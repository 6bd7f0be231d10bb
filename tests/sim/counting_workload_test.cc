#include "sim/counting_workload.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <vector>

#include "common/metric.h"
#include "config/data_plan.h"

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

TEST_CASE("two epochs of SGD with rate 1 count every batch, and a doubled or lost one is seen") {
  CountingOptions options;
  options.test_records = 5;
  options.frozen = true;
  Workload workload = MakeCountingWorkload(options);
  const DataPlan plan = Plan();
  workload.feed->Start(plan);
  REQUIRE(workload.facts.variables_size() == 2);
  std::vector<float> values(options.rows * options.batches);
  std::vector<float> gradient(values.size());
  const std::vector<std::span<const float>> value_spans = {values, values};
  const std::vector<std::span<float>> gradient_spans = {gradient, {}};
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (uint64_t split = 0; split < SplitsPerEpoch(plan); ++split) {
      for (uint32_t batch = 0; batch < BatchesInSplit(plan, split); ++batch) {
        BatchId id = Id(split, batch);
        id.set_epoch(epoch);
        const auto data = workload.feed->Get(id, 3);
        REQUIRE(data.ok());
        REQUIRE(workload.program->ComputeGradients(**data, 0, value_spans, gradient_spans).ok());
        for (size_t row = 0; row < values.size(); ++row) values[row] -= gradient[row];
      }
    }
  }
  Ledger ledger;
  ledger.set_applied(24);
  SplitInterval* const all = ledger.add_finished();
  all->set_last(2 * SplitsPerEpoch(plan) - 1);
  CHECK(CheckCounted(options, plan, ledger, values).empty());
  std::vector<MetricState> states;
  std::vector<uint64_t> records = {0, 1, 2, 3, 4};
  Batch test;
  REQUIRE(workload.test->Read(records, test).ok());
  REQUIRE(workload.program->Evaluate(test, value_spans, states).ok());
  CHECK(MetricValue(states[0]) == 24 * CountingLossPerBatch(5));

  std::vector<float> doubled = values;
  for (size_t row = 0; row < options.rows; ++row) doubled[row * options.batches + 3] += 8;
  CHECK_FALSE(CheckCounted(options, plan, ledger, doubled).empty());
  std::vector<float> lost = values;
  for (size_t row = 0; row < options.rows; ++row) lost[row * options.batches + 3] -= 1;
  CHECK_FALSE(CheckCounted(options, plan, ledger, lost).empty());
  ledger.set_applied(23);
  ledger.set_rejected(1);
  CHECK(CheckCounted(options, plan, ledger, lost).empty());
  lost[0] += 1;
  CHECK_FALSE(CheckCounted(options, plan, ledger, lost).empty());
}

TEST_CASE("the counting workload fails at the batches that it is told to") {
  CountingOptions options;
  options.unreadable = {4};
  options.nonfinite = {5};
  Workload workload = MakeCountingWorkload(options);
  workload.feed->Start(Plan());
  CHECK_FALSE(workload.feed->Get(Id(1, 1), 3).ok());
  const auto poisoned = workload.feed->Get(Id(1, 2), 3);
  REQUIRE(poisoned.ok());
  std::vector<float> gradient(options.rows * options.batches);
  const std::vector<std::span<float>> gradient_spans = {gradient};
  const auto loss = workload.program->ComputeGradients(**poisoned, 0, {}, gradient_spans);
  REQUIRE(loss.ok());
  CHECK(std::isfinite(*loss));
  CHECK(std::isnan(gradient[5]));
  CHECK(std::isfinite(gradient[options.batches + 5]));
}

}  // namespace
}  // namespace paracord
