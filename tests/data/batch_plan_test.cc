#include "data/batch_plan.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "config/data_plan.h"
#include "tests/batches.h"

namespace paracord {
namespace {

DataPlan Plan(uint64_t records, uint32_t batch, uint32_t split_batches, bool shuffle) {
  DataPlan plan = PlanOf(records, batch, split_batches);
  plan.set_shuffle(shuffle);
  plan.set_seed(5);
  return plan;
}

std::vector<uint64_t> Epoch(const DataPlan& plan, uint64_t epoch) {
  std::vector<uint64_t> all, records;
  for (uint64_t split = 0; split < SplitsPerEpoch(plan); ++split) {
    for (uint32_t batch = 0; batch < BatchesInSplit(plan, split); ++batch) {
      BatchRecords(plan, BatchOf(epoch, split, batch), records);
      REQUIRE(records.size() == BatchExamples(plan, split, batch));
      all.insert(all.end(), records.begin(), records.end());
    }
  }
  return all;
}

TEST_CASE("an epoch holds every record exactly once, in another order each epoch") {
  for (uint64_t records : {1u, 2u, 3u, 5u, 64u, 65u, 1000u, 4097u}) {
    const DataPlan plan = Plan(records, 7, 3, true);
    std::set<std::vector<uint64_t>> orders;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<uint64_t> order = Epoch(plan, epoch);
      REQUIRE(order.size() == records);
      std::vector<bool> seen(records, false);
      for (const uint64_t record : order) {
        REQUIRE(record < records);
        REQUIRE_FALSE(seen[record]);
        seen[record] = true;
      }
      REQUIRE(Epoch(plan, epoch) == order);
      orders.insert(order);
    }
    if (records > 5) CHECK(orders.size() == 3);
  }
}

TEST_CASE("without shuffling records come in order") {
  const std::vector<uint64_t> order = Epoch(Plan(100, 7, 3, false), 9);
  for (uint64_t i = 0; i < order.size(); ++i) REQUIRE(order[i] == i);
}

TEST_CASE("a shuffled order is not correlated with the files' order") {
  const uint64_t n = 10000;
  const Permutation order(n, 3);
  double correlation = 0, neighbours = 0;
  const double mean = static_cast<double>(n - 1) / 2;
  const double variance = (static_cast<double>(n) * static_cast<double>(n) - 1) / 12;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(order(i));
    correlation += (static_cast<double>(i) - mean) * (x - mean);
    neighbours += std::abs(x - static_cast<double>(order((i + 1) % n)));
  }
  const auto count = static_cast<double>(n);
  CHECK(std::abs(correlation / count / variance) < 0.05);
  CHECK(neighbours / count == Approx(count / 3).epsilon(0.05));  // the value for independent draws
}

TEST_CASE("a permutation of almost 2^64 values stays inside and is one to one on a sample") {
  for (uint64_t n :
       {uint64_t{1} << 33, (uint64_t{1} << 63) + 12345, std::numeric_limits<uint64_t>::max()}) {
    const Permutation order(n, 8);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t x = order(n - 1 - i);
      REQUIRE(x < n);
      seen.insert(x);
    }
    CHECK(seen.size() == 1000);
  }
}

TEST_CASE("a batch that the plan does not have is empty") {
  const DataPlan plan = Plan(100, 10, 4, true);
  std::vector<uint64_t> records{1};
  for (const BatchId& id : {BatchOf(0, 3, 0), BatchOf(0, 2, 2), BatchOf(0, 0, 4)}) {
    BatchRecords(plan, id, records);
    CHECK(records.empty());
  }
}

TEST_CASE("batches have different keys, the same each time") {
  const DataPlan plan = Plan(100, 10, 4, true);
  std::set<uint64_t> keys;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t split = 0; split < 3; ++split) {
      for (uint32_t batch = 0; batch < 4; ++batch)
        keys.insert(BatchKey(plan, BatchOf(epoch, split, batch)));
    }
  }
  CHECK(keys.size() == 36);
  CHECK(BatchKey(plan, BatchOf(1, 2, 3)) == BatchKey(plan, BatchOf(1, 2, 3)));
}

}  // namespace
}  // namespace paracord
