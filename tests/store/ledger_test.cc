#include "store/ledger.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "config/data_plan.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A plain set of entered batches.
struct Model {
  std::set<std::pair<uint64_t, uint32_t>> entered;
  uint64_t applied = 0;
  uint64_t rejected = 0;

  uint32_t Next(uint64_t split) const {
    uint32_t next = 0;
    while (entered.contains({split, next})) ++next;
    return next;
  }
  PushOutcome Enter(const PlanBatch& batch, bool reject) {
    const uint32_t next = Next(batch.split);
    if (batch.batch != next) return batch.batch < next ? PUSH_ALREADY_APPLIED : PUSH_GAP;
    entered.insert({batch.split, batch.batch});
    ++(reject ? rejected : applied);
    return PUSH_APPLIED;
  }
};

TEST_CASE("the ledger agrees with a plain set of batches on any sequence") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    SeededRandom random(seed);
    const auto records = static_cast<uint64_t>(random.Between(1, 90));
    const auto batch_records = static_cast<uint32_t>(random.Between(1, 7));
    const auto cut = static_cast<uint32_t>(random.Between(1, 5));
    const DataPlan plan = seed % 2 == 0 ? PlanOfLanes(records, batch_records, cut)
                                        : PlanOf(records, batch_records, cut);
    const int64_t last_split = static_cast<int64_t>(SplitsPerEpoch(plan)) - 1;
    PartitionLedger ledger;
    Model model;
    for (int step = 0; step < 600; ++step) {
      const uint64_t split = static_cast<uint64_t>(random.Between(0, last_split));
      const uint32_t count = BatchesInSplit(plan, split);
      const auto batch = FindBatch(
          plan, BatchOf(static_cast<uint64_t>(random.Between(0, 2)), split,
                        static_cast<uint32_t>(random.Between(0, static_cast<int64_t>(count) - 1))));
      REQUIRE(batch.ok());
      const bool reject = random.Between(0, 9) == 0;
      const PartitionLedger::Entry entry = ledger.Enter(*batch, reject);
      REQUIRE(entry.outcome == model.Enter(*batch, reject));
      REQUIRE(entry.next == model.Next(batch->split));
      REQUIRE(ledger.applied() == model.applied);
      REQUIRE(ledger.rejected() == model.rejected);
      if (step % 50 != 0) continue;
      const auto back = PartitionLedger::FromProto(ledger.ToProto(true), plan);
      REQUIRE(back.ok());
      REQUIRE(back->ToProto(true).SerializeAsString() == ledger.ToProto(true).SerializeAsString());
      ledger = *back;
    }
  }
}

TEST_CASE("a whole epoch, in any order of splits, becomes one interval") {
  const DataPlan plan = PlanOf(1003, 10, 4);  // 101 batches in 26 splits, the last with one batch
  REQUIRE(SplitsPerEpoch(plan) == 26);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SeededRandom random(seed);
    std::vector<uint64_t> splits;
    for (uint64_t split = 0; split < 52; ++split) splits.push_back(split);
    for (size_t i = splits.size(); i > 1; --i) {
      std::swap(splits[i - 1],
                splits[static_cast<size_t>(random.Between(0, static_cast<int64_t>(i) - 1))]);
    }
    PartitionLedger ledger;
    for (const uint64_t split : splits) {
      for (uint32_t batch = 0; batch < BatchesInSplit(plan, split % 26); ++batch) {
        const auto found = FindBatch(plan, BatchOf(split / 26, split % 26, batch));
        REQUIRE(ledger.Enter(*found, false).outcome == PUSH_APPLIED);
      }
    }
    const Ledger proto = ledger.ToProto(true);
    REQUIRE(proto.finished_size() == 1);
    CHECK(proto.finished(0).first() == 0);
    CHECK(proto.finished(0).last() == 51);
    CHECK(proto.open_size() == 0);
    CHECK(proto.applied() == 202);
    CHECK(ledger.ToProto(false).finished_size() == 0);
  }
}

TEST_CASE("a finished split answers with its own number of batches") {
  const DataPlan plan = PlanOf(25, 10, 2);  // splits of 2 and 1 batches
  PartitionLedger ledger;
  CHECK(ledger.Enter(*FindBatch(plan, BatchOf(0, 1, 0)), false).next == 1);
  CHECK(ledger.Enter(*FindBatch(plan, BatchOf(0, 1, 0)), false).outcome == PUSH_ALREADY_APPLIED);
  CHECK(ledger.Enter(*FindBatch(plan, BatchOf(0, 1, 0)), false).next == 1);
  CHECK(ledger.Enter(*FindBatch(plan, BatchOf(0, 0, 1)), false).outcome == PUSH_GAP);
  CHECK(ledger.Enter(*FindBatch(plan, BatchOf(0, 0, 1)), false).next == 0);
}

TEST_CASE("batches that the plan does not have are refused") {
  const DataPlan plan = PlanOf(25, 10, 2);
  CHECK(FindBatch(plan, BatchOf(0, 1, 0)).ok());
  CHECK(FindBatch(plan, BatchOf(1000000, 1, 0))->split == 2000001);
  for (const BatchId& id :
       {BatchOf(0, 1, 1), BatchOf(0, 0, 2), BatchOf(0, 2, 0), BatchOf(0, ~uint64_t{0}, 0),
        BatchOf(~uint64_t{0}, 0, 0), BatchOf(uint64_t{1} << 63, 1, 0)}) {
    CHECK(absl::IsInvalidArgument(FindBatch(plan, id).status()));
  }
  CHECK(absl::IsInvalidArgument(FindBatch(DataPlan(), BatchOf(0, 0, 0)).status()));
}

TEST_CASE("a ledger of lanes has the batches of each lane, and not those of splits") {
  const DataPlan plan = PlanOfLanes(95, 10, 4);  // lanes of 3, 3, 2 and 2 batches
  PartitionLedger ledger;
  for (uint64_t lane = 0; lane < 4; ++lane) {
    for (uint32_t b = 0; b < 2; ++b) {
      CHECK(ledger.Enter(*FindBatch(plan, BatchOf(0, lane, b)), false).outcome == PUSH_APPLIED);
    }
  }
  CHECK(absl::IsInvalidArgument(FindBatch(plan, BatchOf(0, 2, 2)).status()));
  CHECK(absl::IsInvalidArgument(FindBatch(plan, BatchOf(0, 4, 0)).status()));
  const Ledger text = ledger.ToProto(true);
  REQUIRE(text.finished_size() == 1);
  CHECK((text.finished(0).first() == 2 && text.finished(0).last() == 3));
  CHECK(text.open_size() == 2);
  CHECK(PartitionLedger::FromProto(text, plan).ok());
  // In splits of five batches, the finished splits would have ten batches.
  CHECK(absl::IsDataLoss(PartitionLedger::FromProto(text, PlanOf(95, 10, 5)).status()));
}

TEST_CASE("a ledger has the steps that were counted, of which there are no more than batches") {
  const DataPlan plan = PlanOfLanes(95, 10, 4);
  PartitionLedger ledger;
  for (uint64_t lane = 0; lane < 4; ++lane)
    ledger.Enter(*FindBatch(plan, BatchOf(0, lane, 0)), lane == 0);
  CHECK(ledger.steps() == 0);
  ledger.CountStep();
  Ledger proto = ledger.ToProto(true);
  CHECK(proto.steps() == 1);
  CHECK(ledger.ToProto(false).steps() == 1);
  CHECK(PartitionLedger::FromProto(proto, plan)->steps() == 1);
  proto.set_steps(4);
  CHECK(absl::IsDataLoss(PartitionLedger::FromProto(proto, plan).status()));
}

TEST_CASE("what is no ledger of the plan is refused") {
  const DataPlan plan = PlanOf(25, 10, 2);  // splits of 2 and 1 batches in an epoch
  const auto make = [](std::vector<std::pair<uint64_t, uint64_t>> finished,
                       std::vector<std::pair<uint64_t, uint32_t>> open, uint64_t applied,
                       uint64_t rejected) {
    Ledger ledger;
    for (const auto& [first, last] : finished) {
      SplitInterval* interval = ledger.add_finished();
      interval->set_first(first);
      interval->set_last(last);
    }
    for (const auto& [split, next] : open) {
      OpenSplit* item = ledger.add_open();
      item->set_split(split);
      item->set_next(next);
    }
    ledger.set_applied(applied);
    ledger.set_rejected(rejected);
    return ledger;
  };
  CHECK(PartitionLedger::FromProto(make({}, {}, 0, 0), plan).ok());
  CHECK(PartitionLedger::FromProto(make({{0, 3}, {5, 5}}, {{4, 1}}, 7, 1), plan).ok());
  const std::vector<Ledger> bad = {
      make({{0, 3}}, {}, 6, 1),  // counts do not add up
      make({{0, 3}}, {}, ~uint64_t{0}, 7),
      make({{3, 0}}, {}, 0, 0),           // backwards
      make({{0, 1}, {2, 3}}, {}, 6, 0),   // touching
      make({{4, 5}, {0, 1}}, {}, 6, 0),   // not ascending
      make({{0, 3}, {2, 5}}, {}, 12, 0),  // overlapping
      make({}, {{0, 0}}, 0, 0),           // open with nothing entered
      make({}, {{0, 2}}, 2, 0),           // open, but finished
      make({}, {{1, 1}}, 1, 0),
      make({}, {{2, 1}, {0, 1}}, 2, 0),  // not ascending
      make({}, {{0, 1}, {0, 1}}, 2, 0),
      make({{0, 1}}, {{0, 1}}, 4, 0),  // open and finished
      make({{0, ~uint64_t{0}}}, {}, 0, 0),
      make({{~uint64_t{0}, ~uint64_t{0}}}, {}, 0, 0),
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(i);
    CHECK(absl::IsDataLoss(PartitionLedger::FromProto(bad[i], plan).status()));
  }
}

}  // namespace
}  // namespace paracord
