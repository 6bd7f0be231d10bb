#include "worker/round_wait.h"

#include <catch2/catch.hpp>
#include <vector>

namespace paracord {
namespace {

constexpr uint64_t kRounds = 5;

DataPlan RoundsPlan() {
  DataPlan plan;
  plan.set_records(3 * kRounds - 1);
  plan.set_batch(1);
  plan.set_lanes(3);
  plan.set_split_batches(kRounds);
  return plan;
}

BatchId LaneBatch(uint64_t epoch, uint64_t lane, uint32_t batch) {
  BatchId id;
  id.set_epoch(epoch);
  id.set_split(lane);
  id.set_batch(batch);
  return id;
}

ExchangeOutcome Waits(std::vector<uint32_t> missing) {
  ExchangeOutcome outcome;
  outcome.waits = true;
  outcome.missing = std::move(missing);
  return outcome;
}

TEST_CASE("the values of a batch have every lane's batches of all rounds but the last few") {
  const RoundWait wait(RoundsPlan(), /*staleness=*/2);
  for (uint32_t n = 0; n <= 2; ++n) {
    CHECK(wait.StateFor(LaneBatch(0, 0, n)) == std::nullopt);
    CHECK(wait.StateFor(LaneBatch(1, 0, n)) == kRounds);
  }
  CHECK(wait.StateFor(LaneBatch(0, 1, 3)) == 1);
  CHECK(wait.StateFor(LaneBatch(2, 1, 4)) == 2 * kRounds + 2);
  CHECK(RoundWait(RoundsPlan(), 0).StateFor(LaneBatch(2, 0, 1)) == 2 * kRounds + 1);
  CHECK(RoundWait(DataPlan(), 0).StateFor(LaneBatch(0, 3, 9)) == std::nullopt);
  CHECK(RoundWait(DataPlan(), 0).Reached(LaneBatch(0, 3, 9)));
}

TEST_CASE("values have reached the state that was asked for, in its epoch") {
  RoundWait wait(RoundsPlan(), 0);
  CHECK(wait.Reached(LaneBatch(0, 0, 0)));
  CHECK_FALSE(wait.Reached(LaneBatch(0, 0, 1)));
  wait.Answered(2, {}, 10);
  CHECK(wait.Reached(LaneBatch(0, 1, 1)));
  CHECK(wait.Reached(LaneBatch(0, 1, 2)));
  CHECK_FALSE(wait.Reached(LaneBatch(0, 1, 3)));
  wait.Answered(std::nullopt, {}, 10);
  CHECK(wait.Reached(LaneBatch(0, 1, 2)));
  wait.Answered(kRounds + 1, {}, 10);
  CHECK(wait.Reached(LaneBatch(1, 0, 1)));
  CHECK_FALSE(wait.Reached(LaneBatch(0, 1, 4)));  // batch of another epoch
}

TEST_CASE("no exchange asks for a state that waits for the worker's own batches") {
  const RoundWait strict(RoundsPlan(), 0), loose(RoundsPlan(), 1);
  CHECK(strict.StateForAll({}) == std::nullopt);
  const std::vector<BatchId> lanes = {LaneBatch(0, 0, 3), LaneBatch(0, 1, 3)},
                             same = {LaneBatch(0, 0, 3), LaneBatch(0, 0, 4)},
                             next_epoch = {LaneBatch(0, 0, 4), LaneBatch(1, 0, 0)};
  CHECK(strict.StateForAll(lanes) == 3);
  CHECK(strict.StateForAll(same) == 3);  // 4 would wait for batch 3
  CHECK(loose.StateForAll(same) == 3);
  CHECK(loose.StateForAll(lanes) == 2);
  CHECK(strict.StateForAll(next_epoch) == 4);
}

TEST_CASE("in synchronous training no state does but the one before the batch's round") {
  RoundWait wait(RoundsPlan(), 0, /*sync=*/true);
  CHECK(wait.StateFor(LaneBatch(0, 2, 0)) == 0);
  CHECK(wait.StateFor(LaneBatch(2, 1, 4)) == 2 * kRounds + 4);
  CHECK_FALSE(wait.Reached(LaneBatch(0, 0, 0)));
  wait.Answered(3, {}, 10);
  CHECK(wait.Reached(LaneBatch(0, 1, 3)));
  CHECK_FALSE(wait.Reached(LaneBatch(0, 1, 2)));
  CHECK_FALSE(wait.Reached(LaneBatch(0, 1, 4)));
  wait.Answered(4, Waits({1}), 10);  // some values may be of state 4
  CHECK_FALSE(wait.Reached(LaneBatch(0, 1, 3)));
  CHECK_FALSE(wait.Reached(LaneBatch(0, 1, 4)));
  wait.Answered(kRounds, {}, 10);
  CHECK(wait.Reached(LaneBatch(1, 0, 0)));
  wait.Answered(std::nullopt, {}, 10);  // present values
  CHECK_FALSE(wait.Reached(LaneBatch(1, 0, 0)));
}

TEST_CASE("a push asks for the state of the next batch, or for the one after its own round") {
  const RoundWait wait(RoundsPlan(), 0, /*sync=*/true);
  CHECK(wait.StateAfter(LaneBatch(0, 0, 3), LaneBatch(0, 1, 3)) == 3);
  CHECK(wait.StateAfter(LaneBatch(0, 0, 3), LaneBatch(0, 0, 4)) == 4);
  CHECK(wait.StateAfter(LaneBatch(0, 0, 3), std::nullopt) == 4);
  CHECK(wait.StateAfter(LaneBatch(1, 0, 4), std::nullopt) == 2 * kRounds);
}

TEST_CASE(
    "a round is late that is waited for some times as long as the worker's own batches take") {
  const DataPlan plan = RoundsPlan();
  RoundWait wait(plan, 0, /*sync=*/true, /*backup=*/3);
  CHECK(wait.Ask(1, 900) == 0);  // the time for a batch is unknown
  wait.Computed(50);
  CHECK(wait.Ask(1, 1000) == 100);
  wait.Answered(1, Waits({0, 2}), 100);
  CHECK(wait.Late(1100).empty());
  CHECK(wait.Ask(1, 1100) == 50);
  wait.Answered(1, Waits({0, 2}), 50);
  CHECK(wait.Late(1150) == std::vector<uint32_t>{0, 2});
  CHECK(wait.Ask(1, 1150) == 25);
  // A lane granted meanwhile is computed, and the wait goes on.
  CHECK(wait.Ask(0, 1160) == 25);
  wait.Answered(0, {}, 2);
  CHECK(wait.Late(1162).empty());
  wait.Stop();
  wait.Computed(50);
  CHECK(wait.Ask(1, 1210) == 25);
  wait.Answered(1, Waits({2}), 25);
  CHECK(wait.Late(1235) == std::vector<uint32_t>{2});
  wait.Answered(1, {}, 1);
  CHECK(wait.Late(1236).empty());
  CHECK(wait.Ask(2, 1300) == 100);
  wait.Answered(2, Waits({1}), 100);
  CHECK(wait.Late(1400).empty());
  CHECK(wait.Late(1450) == std::vector<uint32_t>{1});
}

TEST_CASE("no round is late before 20 ms, and none at all without backup workers") {
  RoundWait fast(RoundsPlan(), 0, /*sync=*/true, 2), without(RoundsPlan(), 0, /*sync=*/true);
  for (RoundWait* wait : {&fast, &without}) {
    wait->Computed(1);
    CHECK(wait->Ask(3, 1000) == (wait == &fast ? 20 : 0));
    wait->Answered(3, Waits({1}), 19);
    CHECK(wait->Late(1019).empty());
    CHECK(wait->Late(90000).empty() == (wait == &without));
  }
  CHECK(fast.Late(1020) == std::vector<uint32_t>{1});
}

TEST_CASE("the time in which lanes of others are waited for is counted, and said if it is long") {
  RoundWait wait(RoundsPlan(), 0);
  CHECK(wait.Answered(1, {}, 300) == 0);  // no ps says that lanes were late
  CHECK(wait.Answered(kRounds + 3, Waits({0, 2}), 500) == 500);
  CHECK(wait.waits());
  CHECK(wait.WaitsFor().empty());
  CHECK(wait.Answered(std::nullopt, {}, 700) == 0);  // answer to another request
  CHECK(wait.waits());
  wait.Answered(kRounds + 3, Waits({0, 2}), 500);
  CHECK(wait.Answered(kRounds + 3, Waits({2}), 500) == 500);
  CHECK(wait.WaitsFor() == "round 3 of epoch 2 for 1 s (behind: lanes 2)");
  CHECK(wait.Answered(kRounds + 3, {}, 20) == 20);
  CHECK_FALSE(wait.waits());
  CHECK(wait.WaitsFor().empty());
  wait.Answered(kRounds + 4, Waits({}), 5000);
  wait.Stop();
  CHECK_FALSE(wait.waits());
  CHECK(wait.WaitsFor().empty());
}

}  // namespace
}  // namespace paracord
