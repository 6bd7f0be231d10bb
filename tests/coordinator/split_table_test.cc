#include "coordinator/core/split_table.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/batches.h"

namespace paracord {
namespace {

// Returns a plan with `batches` batches an epoch, each of one record.
DataPlan Splits(uint64_t batches, uint32_t split_batches) {
  return PlanOf(batches, 1, split_batches);
}

TEST_CASE("splits are granted once, in order, and the last one is shorter") {
  SplitTable table(/*epoch=*/2, /*batches=*/10, Splits(10, 4));
  const auto first = table.Grant(1, 100, 0);
  const auto second = table.Grant(2, 101, 0);
  const auto third = table.Grant(3, 100, 0);
  REQUIRE((first && second && third));
  CHECK(first->split() == 0);
  CHECK(first->end_batch() == 4);
  CHECK(third->split() == 2);
  CHECK(third->end_batch() == 2);
  CHECK(third->epoch() == 2);
  CHECK_FALSE(table.Grant(4, 100, 0).has_value());
}

TEST_CASE("a split that ended unfinished is granted again from where it stood") {
  SplitTable table(0, 4, Splits(4, 4));
  REQUIRE(table.Grant(1, 100, 0).has_value());
  table.Progress(*table.Find(1), 3);
  table.End(1);
  const auto again = table.Grant(2, 101, 0);
  REQUIRE(again.has_value());
  CHECK(again->first_batch() == 3);
  table.Progress(*table.Find(2), 4);
  CHECK(table.AllDone());
  table.End(2);
  CHECK_FALSE(table.Grant(3, 101, 0).has_value());
}

TEST_CASE("progress never goes back by a report, and does by the ledgers") {
  SplitTable table(0, 4, Splits(4, 4));
  REQUIRE(table.Grant(1, 100, 0).has_value());
  table.Progress(*table.Find(1), 4);
  table.Progress(*table.Find(1), 1);
  CHECK(table.AllDone());
  table.Load({2});
  CHECK_FALSE(table.AllDone());
  CHECK(table.batches_done() == 2);
}

TEST_CASE("reports of leases that are not held change nothing") {
  SplitTable table(0, 4, Splits(4, 4));
  table.End(9);
  CHECK_FALSE(table.AllDone());
  CHECK(table.Find(9) == nullptr);
}

TEST_CASE("the end of a session frees its splits and returns its leases") {
  SplitTable table(0, 8, Splits(8, 4));
  REQUIRE(table.Grant(1, 100, 0).has_value());
  REQUIRE(table.Grant(2, 100, 0).has_value());
  table.Progress(*table.Find(1), 2);
  CHECK(table.LeasesOf(100) == 2);
  CHECK(table.LeasesOf(99) == 0);
  const std::vector<LeaseState> ended = table.EndSession(100);
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].next == 2);
  CHECK(table.leases().empty());
  CHECK(table.Grant(3, 101, 0)->first_batch() == 2);
}

TEST_CASE("a straggler's split is granted to one more session and only when it is old") {
  SplitTable table(0, 4, Splits(4, 4));
  REQUIRE(table.Grant(1, 100, /*now_ms=*/1000).has_value());
  CHECK_FALSE(table.GrantAgain(2, 101, 1500, 5000).has_value());
  CHECK_FALSE(table.GrantAgain(2, 100, 9000, 5000).has_value());
  CHECK(table.GrantAgain(2, 101, 9000, 5000).has_value());
  CHECK_FALSE(table.GrantAgain(3, 102, 9000, 5000).has_value());
  table.Progress(*table.Find(2), 4);
  table.End(2);
  CHECK(table.AllDone());
  // The straggler has not been told yet. A third worker has nothing to do in this split.
  CHECK_FALSE(table.GrantAgain(3, 102, 9000, 5000).has_value());
  table.End(1);
}

TEST_CASE("a table takes back what the ledgers no longer say, and does not leave out a split") {
  SplitTable table(0, 12, Splits(12, 4));
  table.Load({4, 2});
  CHECK(table.Grant(1, 100, 0, /*withheld=*/{1, 2}) == std::nullopt);
  CHECK(table.HasFree());
  table.Load({});
  CHECK(table.batches_done() == 0);
  for (uint64_t split = 0; split < 3; ++split) {
    CHECK(table.HasFree());
    CHECK(table.Grant(2 + split, 100, 0)->split() == split);
  }
  CHECK_FALSE(table.HasFree());
}

TEST_CASE("splits that nobody has begun take no memory") {
  constexpr uint64_t kBatches = uint64_t{1} << 60;
  SplitTable table(0, kBatches, Splits(kBatches, 4));
  CHECK(table.Grant(1, 100, 0)->split() == 0);
  CHECK_FALSE(table.AllDone());
  CHECK(LeastNext({}, 0, kBatches, Splits(kBatches, 4)).empty());
}

Ledger MakeLedger(std::vector<std::pair<uint64_t, uint64_t>> finished,
                  std::vector<std::pair<uint64_t, uint32_t>> open) {
  Ledger ledger;
  for (const auto& [first, last] : finished) {
    SplitInterval& interval = *ledger.add_finished();
    interval.set_first(first);
    interval.set_last(last);
  }
  for (const auto& [split, next] : open) {
    OpenSplit& entry = *ledger.add_open();
    entry.set_split(split);
    entry.set_next(next);
  }
  return ledger;
}

TEST_CASE("what is left of an epoch is the least over the ledgers") {
  // Three splits an epoch, of 4, 4 and 2 batches. Epoch 1 has splits 3 to 5.
  const DataPlan plan = Splits(10, 4);
  const Ledger ahead = MakeLedger({{0, 3}}, {{4, 3}, {5, 1}});
  const Ledger behind = MakeLedger({{0, 2}}, {{3, 1}, {4, 4}});
  CHECK(LeastNext({&ahead}, 1, 10, plan) == std::vector<uint32_t>{4, 3, 1});
  CHECK(LeastNext({&ahead, &behind}, 1, 10, plan) == std::vector<uint32_t>{1, 3});
  CHECK(LeastNext({}, 1, 10, plan).empty());
  SplitTable table(0, 10, plan);
  table.Load(LeastNext({&ahead, &behind}, 0, 10, plan));
  CHECK(table.AllDone());
  CHECK(CoversAll({4, 4, 2}, 10, plan));
  CHECK_FALSE(CoversAll({4, 3, 2}, 10, plan));
  CHECK_FALSE(CoversAll({4, 4, 1}, 10, plan));
  CHECK_FALSE(CoversAll({4, 4}, 10, plan));
  constexpr uint64_t kMany = uint64_t{1} << 62;
  CHECK(LeastNext({&ahead, &behind}, 0, kMany, Splits(kMany, 4)) ==
        std::vector<uint32_t>{4, 4, 4, 1, 3});
}

TEST_CASE("what is left of an epoch of lanes is the least of each lane") {
  // Lanes of 3, 3, 2 and 2 batches. Epoch 1 has lanes 4 to 7.
  const DataPlan plan = PlanOfLanes(10, 1, 4);
  const Ledger ahead = MakeLedger({{0, 3}, {6, 7}}, {{4, 2}, {5, 1}});
  const Ledger behind = MakeLedger({{0, 3}, {6, 6}}, {{4, 2}, {7, 1}});
  CHECK(LeastNext({&ahead}, 1, 10, plan) == std::vector<uint32_t>{2, 1, 3, 3});
  CHECK(LeastNext({&ahead, &behind}, 1, 10, plan) == std::vector<uint32_t>{2, 0, 3, 1});
  CHECK_FALSE(CoversAll({3, 3, 2, 1}, 10, plan));
  CHECK(CoversAll({3, 3, 2, 2}, 10, plan));
  CHECK(CoversAll({2, 2, 2, 2}, 8, plan));  // a job that ends after two rounds
  CHECK(BatchesReached({&ahead}, plan) == 18);
  CHECK(BatchesReached({&behind}, plan) == 17);
  const Ledger whole = MakeLedger({{0, 3}}, {});
  CHECK(BatchesReached({&whole}, plan) == 10);  // the last batch is lane 1's, not lane 3's
  SplitTable table(1, 10, plan);
  table.Load(LeastNext({&ahead, &behind}, 1, 10, plan));
  CHECK(table.batches_done() == 5);
  const Ledger two = MakeLedger({}, {{0, 1}, {1, 1}});
  CHECK(LeastNext({&two}, 0, 2, PlanOfLanes(2, 1, 4)) == std::vector<uint32_t>{1, 1});
}

TEST_CASE("leases of lanes end where they are told, and are moved on to the end of the lane") {
  SplitTable table(0, 10, PlanOfLanes(10, 1, 4));  // lanes of 3, 3, 2 and 2 batches
  CHECK(table.splits() == 4);
  CHECK(table.GrantLane(2, 20, 7, 0, /*end=*/1).end_batch() == 1);
  CHECK(table.GrantLane(0, 21, 8, 0, 1).end_batch() == 1);
  CHECK_FALSE(table.IsFree(0));
  CHECK(table.IsFree(1));
  CHECK(table.Holders() == std::vector<uint64_t>{8, 0, 7, 0});
  CHECK(table.IdsOf(7) == std::vector<uint64_t>{20});
  LeaseState& lease = *table.Find(20);
  CHECK(table.Extend(lease, 5).end_batch() == 2);
  CHECK(table.Extend(lease, 1).end_batch() == 2);
  CHECK(table.Extend(lease, 1).id() == 20);
  table.Progress(lease, 1);
  CHECK(table.front() == 1);
  table.End(20);
  CHECK(table.IsFree(2));
  // Even a lane that is ahead gets a batch in its lease.
  CHECK(table.GrantLane(2, 22, 9, 0, 1).end_batch() == 2);
}

TEST_CASE("a lane that comes no further is behind if others wait for it") {
  SplitTable table(0, 40, PlanOfLanes(40, 1, 4));
  for (uint64_t lane = 0; lane < 3; ++lane) table.GrantLane(lane, 20 + lane, 7 + lane, 0, 10);
  table.Progress(*table.Find(20), 2);
  CHECK(table.least() == 0);
  using Lanes = std::vector<uint64_t>;
  CHECK(table.LanesBehind(0) == Lanes{1, 2});
  CHECK(table.LanesBehind(-1).empty());
  CHECK(table.IsBehindWithAnother(1, 7));
  CHECK_FALSE(table.IsBehindWithAnother(1, 8));  // a lane of session 8
  CHECK_FALSE(table.IsBehindWithAnother(0, 8));  // the lane is ahead
  CHECK_FALSE(table.IsBehindWithAnother(3, 8));  // the lane is free
  table.Find(21)->progress_ms = 3000;
  CHECK(table.LanesBehind(2999) == Lanes{2});
  table.GrantLane(2, 30, 7, 5000, 10);
  CHECK(table.LanesBehind(4000) == Lanes{1});  // the other lane has two leases
  CHECK_FALSE(table.IsBehindWithAnother(2, 9));
  table.Load({2, 1, 1, 5});
  CHECK(table.least() == 1);
  CHECK(table.LanesBehind(4000) == Lanes{1});
  table.Load({10, 10, 10, 10});
  CHECK(table.least() == 10);
  CHECK(table.LanesBehind(4000).empty());
}

TEST_CASE("ledgers with holes tell the least of each split, whatever the epoch") {
  std::mt19937 random(7);
  const auto draw = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 1000; ++round) {
    constexpr uint64_t kSplits = 5;  // per epoch
    const uint64_t epoch = draw(3);
    std::vector<Ledger> ledgers;
    std::vector<uint32_t> least(kSplits, 4);
    uint64_t begun = kSplits;
    for (int l = 0; l < 3; ++l) {
      std::vector<std::pair<uint64_t, uint64_t>> finished;
      std::vector<std::pair<uint64_t, uint32_t>> open;
      uint64_t end = 0;
      for (uint64_t s = 0; s < 3 * kSplits; ++s) {
        const uint32_t next = draw(3) == 0 ? draw(4) : 4;
        if (next == 4 && !finished.empty() && finished.back().second + 1 == s) {
          finished.back().second = s;
        } else if (next == 4) {
          finished.emplace_back(s, s);
        } else if (next > 0) {
          open.emplace_back(s, next);
        }
        if (next > 0) end = s + 1;
        if (s / kSplits == epoch) least[s % kSplits] = std::min(least[s % kSplits], next);
      }
      ledgers.push_back(MakeLedger(finished, open));
      begun = std::min(begun, std::max(end, epoch * kSplits) - epoch * kSplits);
    }
    least.resize(begun);
    CHECK(LeastNext({&ledgers[0], &ledgers[1], &ledgers[2]}, epoch, 20, Splits(20, 4)) == least);
  }
}

TEST_CASE("of a lane the ledgers have to show what was reported before they were asked") {
  DataPlan plan = PlanOfLanes(40, 1, 4);
  SplitTable table(0, 40, plan);
  for (uint64_t lane = 0; lane < 4; ++lane) table.GrantLane(lane, lane + 1, 100 + lane, 0, 10);
  const auto report = [&](uint64_t lane, uint32_t next) {
    table.Progress(*table.Find(lane + 1), next);
  };
  report(0, 3);
  report(1, 4);
  report(2, 2);
  CHECK(table.UnfoundedIn({0, 0, 0, 0}, 0).empty());  // the ledgers were never asked for
  table.LedgersAsked();
  report(3, 5);  // the requested ledgers may predate the report
  report(0, 9);
  const std::vector<SplitTable::Unfounded> lanes = table.UnfoundedIn({3, 3, 2}, 0);
  REQUIRE(lanes.size() == 1);
  CHECK(lanes[0].lane == 1);
  CHECK(lanes[0].session == 101);
  CHECK(table.UnfoundedIn({2, 3, 1}, 1).empty());
  CHECK(table.UnfoundedIn({}, 1).size() == 3);
  table.Load({3, 3, 2});
  table.LedgersAsked();
  CHECK(table.UnfoundedIn({3, 3, 2}, 0).empty());
  table.EndAllOf(1);
  CHECK(table.IsFree(1));
  CHECK(table.NextOf(1) == 3);
}

}  // namespace
}  // namespace paracord
