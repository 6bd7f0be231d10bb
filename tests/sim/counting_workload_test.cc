#include "sim/counting_workload.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <span>
#include <string>
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
        const auto data = workload.feed->Get(id, {});
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

TEST_CASE("a lost, doubled or early update of a row of a growing table is seen") {
  CountingOptions options;
  options.tables = options.growing = true;
  Workload workload = MakeCountingWorkload(options);
  const DataPlan plan = Plan();
  workload.feed->Start(plan);
  std::map<uint64_t, std::vector<float>> rows;
  for (uint64_t split = 0; split < SplitsPerEpoch(plan); ++split) {
    for (uint32_t batch = 0; batch < BatchesInSplit(plan, split); ++batch) {
      const auto data = workload.feed->Get(Id(split, batch), {});
      REQUIRE(data.ok());
      const auto read = workload.program->RowsOf(**data).value();
      std::vector<float> gradient(read->ids[0].size() * options.batches);
      const std::vector<std::span<float>> gradients = {gradient};
      REQUIRE(workload.program->ComputeGradients(**data, 0, {}, gradients).ok());
      for (size_t i = 0; i < gradient.size(); ++i) {
        std::vector<float>& row = rows[read->ids[0][i / options.batches]];
        row.resize(options.batches);
        row[i % options.batches] -= gradient[i];
      }
    }
  }
  Ledger ledger;
  ledger.set_applied(options.batches);
  ledger.add_finished()->set_last(SplitsPerEpoch(plan) - 1);
  const auto check = [&](const std::map<uint64_t, std::vector<float>>& there) {
    std::string wrong;
    for (uint64_t slot = 0; slot < options.rows; ++slot) {
      std::vector<float> values;
      for (const uint64_t id : CountingIdsOf(options, slot)) {
        const std::vector<float>& row = there.at(id);
        values.insert(values.end(), row.begin(), row.end());
      }
      wrong += CheckGrown(options, plan, ledger, slot, values);
    }
    return wrong;
  };
  REQUIRE(rows.size() == CountingIds().size());
  CHECK(check(rows).empty());
  auto other = rows;
  other.at(0)[3] += 1;
  CHECK_FALSE(check(other).empty());
  other = rows;
  other.at(0)[3] -= 1;
  CHECK_FALSE(check(other).empty());
  options.admit_after = 2;
  CHECK_FALSE(check(rows).empty());
  for (auto& [id, row] : rows) *std::ranges::find(row, 1.0f) = 0;
  CHECK(check(rows).empty());
}

TEST_CASE("the counting workload fails at the batches that it is told to") {
  CountingOptions options;
  options.unreadable = {4};
  options.nonfinite = {5};
  Workload workload = MakeCountingWorkload(options);
  workload.feed->Start(Plan());
  CHECK_FALSE(workload.feed->Get(Id(1, 1), {}).ok());
  const auto poisoned = workload.feed->Get(Id(1, 2), {});
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
