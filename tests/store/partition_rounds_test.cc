// Partitions with rounds have the bits of a naive sequential run, whatever happens in between.
#include "store/partition_rounds.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/parallel.h"
#include "tests/sanitized.h"
#include "tests/store/pusher.h"

namespace paracord {
namespace {

DataPlan DrawPlan(SyncDraws& draws) {
  const auto lanes = static_cast<uint32_t>(1 + draws.Below(5));
  return PlanOfLanes(4 + draws.Below(40), 3, lanes);
}

// Pushes without effect: of lanes already in, of finished rounds, and of later rounds.
void Distract(Pusher& pusher, SyncDraws& draws, uint64_t state, const std::vector<bool>& in) {
  const SyncLane other{
      pusher.kind.table() ? SyncGradient(std::in_place) : draws.GradientFor(pusher.kind),
      draws.Below(3) == 0};
  const auto lane = static_cast<uint32_t>(draws.Below(in.size()));
  const uint64_t rounds = RoundsPerEpoch(pusher.plan);
  const auto round = static_cast<uint32_t>(state % rounds);
  if (in[lane]) {
    const Outcome again = pusher.Push(state, lane, other);
    REQUIRE(again.outcome == PUSH_ALREADY_APPLIED);
    REQUIRE(again.next == round + 1);
  }
  if (round > 0) {
    const Outcome past = pusher.Push(state - 1, lane, other);
    REQUIRE(past.outcome == PUSH_ALREADY_APPLIED);
    REQUIRE(past.next == (in[lane] ? round + 1 : round));
  }
  if (round + 1 < BatchesInSplit(pusher.plan, lane)) {
    const Outcome ahead = pusher.Push(state + 1, lane, other);
    REQUIRE(ahead.outcome == PUSH_GAP);
    REQUIRE(ahead.next == (in[lane] ? round + 1 : round));
  }
}

void PushRound(Pusher& pusher, SyncDraws& draws, uint64_t state, std::vector<SyncLane>& lanes) {
  const auto count = static_cast<uint32_t>(lanes.size());
  std::vector<bool> in(count);
  std::vector<uint32_t> order = draws.Order(count);
  for (size_t i = 0; i < count; ++i) {
    Distract(pusher, draws, state, in);
    // Pending lanes are dropped, and may be pushed with other values.
    if (i > 0 && draws.Below(12) == 0) {
      pusher.generation = ++pusher.newest;
      if (draws.Below(2) == 0) lanes = draws.LanesFor(pusher.kind, count);
      in.assign(count, false);
      order = draws.Order(count);
      i = 0;
    }
    const Outcome outcome = pusher.Push(state, order[i], lanes[order[i]]);
    REQUIRE(outcome.outcome == (i + 1 == count ? PUSH_APPLIED : PUSH_TAKEN));
    REQUIRE(outcome.next == state % RoundsPerEpoch(pusher.plan) + 1);
    in[order[i]] = true;
    const Partition::Counts counts = pusher.partition->GetCounts();
    REQUIRE(counts.state == (i + 1 == count ? state + 1 : state));
  }
}

TEST_CASE("rounds have the bits of a naive run, and ledgers move by whole rounds") {
  SetParallelThreads(2);
  for (const SyncKind& kind : SyncKinds()) {
    for (uint64_t seed = 1; seed <= UnderSanitizers(1u, 4u); ++seed) {
      CAPTURE(kind.name, seed);
      SyncDraws draws(seed);
      Pusher pusher{kind, DrawPlan(draws)};
      PlainRounds reference(kind, pusher.plan);
      const uint64_t rounds = RoundsPerEpoch(pusher.plan);
      for (uint64_t state = 0; state < 3 * rounds; ++state) {
        std::vector<SyncLane> lanes =
            draws.LanesFor(kind, LanesOfRound(pusher.plan, state % rounds));
        PushRound(pusher, draws, state, lanes);
        reference.Apply(state, lanes);
        reference.Check(pusher.partition);
        const auto restored = StateOf(pusher.partition->GetCounts().ledger, pusher.plan);
        REQUIRE(*restored == state + 1);
        if (!kind.table() && draws.Below(4) == 0) pusher.partition.Restore();
      }
    }
  }
}

TEST_CASE("what two threads push at once has the same bits") {
  SetParallelThreads(1);
  for (const SyncKind& kind : SyncKinds()) {
    CAPTURE(kind.name);
    SyncDraws draws(9);
    Pusher pusher{kind, PlanOfLanes(60 * 4 * 3, 3, 4)};
    std::vector<std::vector<SyncLane>> rounds;
    for (uint64_t state = 0; state < 60; ++state) rounds.push_back(draws.LanesFor(kind, 4));
    std::atomic<int> applied = 0;
    const auto push_all = [&](uint32_t first) {
      for (uint64_t state = 0; state < rounds.size(); ++state) {
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t lane = (first + i) % 4;
          const Outcome outcome = pusher.Push(state, lane, rounds[state][lane]);
          if (outcome.outcome == PUSH_APPLIED) ++applied;
          if (outcome.outcome == PUSH_GAP || outcome.outcome == PUSH_NONE) applied += 1000;
        }
      }
    };
    std::thread other([&] { push_all(2); });
    push_all(0);
    other.join();
    CHECK(applied == 60);
    PlainRounds reference(kind, pusher.plan);
    for (uint64_t state = 0; state < 60; ++state) reference.Apply(state, rounds[state]);
    reference.Check(pusher.partition);
  }
}

TEST_CASE("a round of which all lanes are rejected moves the ledger and no step") {
  for (const SyncKind& kind : SyncKinds()) {
    CAPTURE(kind.name);
    Pusher pusher{kind, PlanOfLanes(24, 3, 2)};
    for (uint32_t lane = 0; lane < 2; ++lane) pusher.Push(0, lane, {{}, true});
    const Ledger ledger = pusher.partition->GetCounts().ledger.ToProto(true);
    CHECK(ledger.rejected() == 2);
    CHECK(ledger.steps() == 0);
    CHECK(pusher.partition->GetCounts().updates == 0);
    pusher.Push(1, 0, {{}, true});
    pusher.Push(1, 1, {{}, false});
    CHECK(pusher.partition->GetCounts().ledger.ToProto(true).steps() == 1);
    CHECK(pusher.partition->GetCounts().state == 2);
  }
}

TEST_CASE("of two gradients for one lane the first counts, and none of an older generation") {
  const SyncKind kind = DenseKind("plain", {"sgd", {{"learning_rate", 1.0}}});
  Pusher pusher{kind, PlanOfLanes(24, 3, 2)};
  const auto of = [](float value) {
    return SyncLane{SyncGradient({{0, std::vector<float>(30, value)}}), false};
  };
  CHECK(pusher.Push(0, 1, of(1)).outcome == PUSH_TAKEN);
  CHECK(pusher.Push(0, 1, of(100)).outcome == PUSH_ALREADY_APPLIED);
  CHECK(pusher.Push(0, 0, of(3)).outcome == PUSH_APPLIED);
  CHECK(pusher.partition.ValuesAt({})->second[0] == 0.5f - 2);
  CHECK(pusher.Push(1, 0, of(1)).outcome == PUSH_TAKEN);
  ++pusher.newest;
  CHECK(pusher.Push(1, 1, of(1)).outcome == PUSH_NONE);  // from the old generation
  ++pusher.generation;
  // Even a push of a past batch shows that nothing is pending.
  CHECK(pusher.Push(0, 0, of(7)).next == 1);
  CHECK(pusher.Push(1, 1, of(5)).outcome == PUSH_TAKEN);
  CHECK(pusher.Push(1, 0, of(7)).outcome == PUSH_APPLIED);
  CHECK(pusher.partition.ValuesAt({})->second[0] == 0.5f - 2 - 6);
}

TEST_CASE("a sum that overflows makes a partition unhealthy, as an update that does") {
  for (const SyncKind& kind : {DenseKind("plain", {"sgd"}), SyncKinds()[3]}) {
    CAPTURE(kind.name);
    Pusher pusher(kind, PlanOfLanes(24, 3, 2));
    const SyncLane great{SyncGradient({{0, std::vector<float>(kind.width(), 3e38f)}}), false};
    pusher.Push(0, 0, great);
    CHECK(pusher.partition->GetCounts().healthy);
    CHECK(pusher.Push(0, 1, great).outcome == PUSH_APPLIED);
    CHECK_FALSE(pusher.partition->GetCounts().healthy);
  }
}

// Enters the first batches of each lane of two epochs.
PartitionLedger LedgerOf(const DataPlan& plan, const std::vector<uint32_t>& entered,
                         uint64_t steps) {
  PartitionLedger ledger;
  const uint64_t lanes = SplitsPerEpoch(plan);
  for (uint64_t split = 0; split < entered.size(); ++split) {
    for (uint32_t batch = 0; batch < entered[split]; ++batch) {
      ledger.Enter(*FindBatch(plan, BatchOf(split / lanes, split % lanes, batch)), false);
    }
  }
  for (uint64_t step = 0; step < steps; ++step) ledger.CountStep();
  return ledger;
}

TEST_CASE("a ledger is of one state, or says of which two it is") {
  const DataPlan plan = PlanOfLanes(10, 1, 4);  // lanes of 3, 3, 2 and 2 batches
  const auto state = [&](const std::vector<uint32_t>& entered, uint64_t steps) {
    return StateOf(LedgerOf(plan, entered, steps), plan);
  };
  CHECK(*state({}, 0) == 0);
  CHECK(*state({1, 1, 1, 1}, 1) == 1);
  CHECK(*state({2, 2, 2, 2}, 2) == 2);
  CHECK(*state({3, 3, 2, 2}, 3) == 3);
  CHECK(*state({3, 3, 2, 2, 1, 1, 1, 1}, 4) == 4);
  const auto refused = [&](const std::vector<uint32_t>& entered, const std::string& names) {
    const absl::Status status = state(entered, 3).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsDataLoss(status));
    CHECK(std::string(status.message()).find(names) != std::string::npos);
  };
  refused({1, 1, 1, 0}, "at state 0, and others at state 1");
  refused({2, 2, 2, 1}, "at state 1, and others at state 2");
  refused({2, 3, 2, 2}, "at state 2, and others at state 3");
  refused({0, 3, 2, 2}, "at state 0, and others at state 3");
  refused({3, 3, 1, 2}, "at state 1, and others at state 3");
  refused({2, 2, 2, 2, 1}, "at state 2, and others at state 4");
  CHECK(absl::IsDataLoss(state({2, 2, 2, 2}, 3).status()));  // more steps than rounds
  CHECK(absl::IsDataLoss(state({2, 2, 2, 2}, 1).status()));  // fewer steps than the batches need
}

TEST_CASE("a partition is not made of a ledger with two states") {
  const SyncKind kind = SyncKinds()[0];
  const DataPlan plan = PlanOfLanes(10, 1, 4);
  const SyncPartition maker(kind, plan, /*sync=*/true);
  CHECK(absl::IsDataLoss(maker.TryMake(LedgerOf(plan, {2, 2, 2, 1}, 2)).status()));
  const auto made = maker.TryMake(LedgerOf(plan, {2, 2, 2, 2}, 2));
  REQUIRE(made.ok());
  CHECK((*made)->GetCounts().state == 2);
  CHECK((*made)->GetCounts().ledger.steps() == 2);
  CHECK_FALSE((*made)->GetCounts().serves_before);
}

}  // namespace
}  // namespace paracord
