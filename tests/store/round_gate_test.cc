#include "store/round_gate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "config/data_plan.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("a state has come when every lane has entered its batches of so many rounds") {
  // Lanes 0 and 1 of an epoch have two batches, lanes 2 and 3 have one.
  const DataPlan plan = PlanOfLanes(6, 1, 4);
  const auto missing_lanes = [&](const PartitionLedger& ledger, uint64_t state) {
    return MissingLanes(ledger, plan, state);
  };
  using Lanes = std::vector<uint32_t>;
  PartitionLedger ledger;
  CHECK(missing_lanes(ledger, 0).empty());
  CHECK(missing_lanes(ledger, 1) == Lanes{0, 1, 2, 3});
  const auto enter = [&](uint64_t split, uint32_t batch) {
    const auto batches = static_cast<uint32_t>(split % 4 < 2 ? 2 : 1);
    REQUIRE(ledger.Enter({split, batch, batches}, /*rejected=*/false).outcome == PUSH_APPLIED);
  };
  enter(0, 0);
  enter(0, 1);
  enter(2, 0);
  CHECK(missing_lanes(ledger, 1) == Lanes{1, 3});
  enter(1, 0);
  enter(3, 0);
  CHECK(missing_lanes(ledger, 1).empty());
  CHECK(missing_lanes(ledger, 2) == Lanes{1});  // short lanes hold up no round
  enter(4, 0);                                  // in the next epoch
  CHECK(missing_lanes(ledger, 3) == Lanes{1});  // in the first epoch
  enter(1, 1);
  CHECK(missing_lanes(ledger, 2).empty());
  CHECK(missing_lanes(ledger, 3) == Lanes{1, 2, 3});
}

TEST_CASE("what is missing is what a count of every lane says, whatever order batches come in") {
  SeededRandom random(5);
  const auto below = [&](uint64_t n) { return random.Next() % n; };
  for (int run = 0; run < 60; ++run) {
    const DataPlan plan =
        PlanOfLanes(1 + below(40), 1, 1 + static_cast<uint32_t>(below(run % 3 == 0 ? 40 : 6)));
    const uint64_t lanes = SplitsPerEpoch(plan), rounds = BatchesInSplit(plan, 0);
    PartitionLedger ledger;
    std::map<uint64_t, uint32_t> next;  // next batch of each split
    for (int i = 0; i < 200; ++i) {
      const uint64_t split = below(3 * lanes);
      const uint32_t batches = BatchesInSplit(plan, split % lanes);
      if (next[split] < batches) ledger.Enter({split, next[split]++, batches}, below(5) == 0);
      const uint64_t state = below(3 * rounds + 1);
      std::vector<uint32_t> expected;
      for (uint64_t epoch = 0; epoch <= state / rounds && expected.empty(); ++epoch) {
        const uint64_t of_each = epoch < state / rounds ? rounds : state % rounds;
        for (uint64_t lane = 0; lane < lanes && expected.size() < kMissingLanesMax; ++lane) {
          if (next[epoch * lanes + lane] < std::min<uint64_t>(of_each, BatchesInSplit(plan, lane)))
            expected.push_back(static_cast<uint32_t>(lane));
        }
      }
      REQUIRE(MissingLanes(ledger, plan, state) == expected);
    }
  }
}

TEST_CASE("an entered batch may bring the states that its lane held up, and no others") {
  const DataPlan plan = PlanOfLanes(6, 1, 4);
  CHECK(StatesAfter(plan, {.split = 4, .batch = 0, .split_batches = 2}).first == 3);
  CHECK(StatesAfter(plan, {.split = 4, .batch = 0, .split_batches = 2}).last == 3);
  CHECK(StatesAfter(plan, {.split = 4, .batch = 1, .split_batches = 2}).first == 4);
  CHECK(StatesAfter(plan, {.split = 4, .batch = 1, .split_batches = 2}).last == UINT64_MAX);
  CHECK(StatesAfter(plan, {.split = 7, .batch = 0, .split_batches = 1}).first == 3);
  CHECK(StatesAfter(plan, {.split = 7, .batch = 0, .split_batches = 1}).last == UINT64_MAX);
}

TEST_CASE("a state that the plan never has is refused by name") {
  DataPlan plan = PlanOfLanes(6, 1, 4);  // two rounds an epoch
  CHECK(CheckState(plan, 6, 18).ok());
  CHECK(CheckState(plan, 7, 18).message() ==
        "the values of state 7 are wanted, and the job has 6 rounds: no worker ever gets there");
  CHECK(CheckState(plan, 5, 13).ok());  // the job ends within a round
  CHECK_FALSE(CheckState(plan, 6, 13).ok());
  CHECK(absl::IsInvalidArgument(CheckState(plan, UINT64_MAX, kBatchesMax)));
  plan.clear_lanes();
  CHECK(CheckState(plan, 0, 18).message() ==
        "the values of state 0 are wanted, and the job has no lanes: its \"consistency\" is "
        "\"async\"");
}

}  // namespace
}  // namespace paracord
