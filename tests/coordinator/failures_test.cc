#include "coordinator/core/failures.h"

#include <catch2/catch.hpp>

#include "tests/batches.h"

namespace paracord {
namespace {

constexpr uint64_t kBusy = 11;
constexpr uint64_t kIdle = 12;

Failures Make(Effects& effects) {
  FailuresSpec spec;
  spec.per_batch = 1;
  spec.deaths_per_batch = 1;
  spec.skip = true;
  return Failures(spec, {}, effects);
}

// A worker dies at split 3 of 4 batches. `busy`: other workers compute.
WorkerDeath DeathAt(int64_t now_ms, bool busy) {
  WorkerDeath death{"worker:0", "its connection broke", {}, now_ms, {}, {}, {}};
  death.leases.push_back({.id = 1, .session = 10, .split = 3, .next = 0, .end = 4});
  (busy ? death.busy : death.idle).push_back(busy ? kBusy : kIdle);
  return death;
}

TEST_CASE("the splits of a worker that died are withheld until the ledgers tell its batch") {
  Effects effects;
  Failures failures = Make(effects);
  failures.NoteDeath(DeathAt(0, true));
  CHECK(failures.Withheld(0, "worker:1", true, 0) == std::set<uint64_t>{3});
  failures.LedgersAsked();
  CHECK(failures.Withheld(0, "worker:1", true, 0) == std::set<uint64_t>{3});
  failures.PlaceDeaths(0, {4, 4, 4, 2}, 0);
  CHECK(failures.last() ==
        "batch 2 of split 3 of epoch 1 on worker:0: the worker died: its connection broke");
  CHECK(failures.Withheld(0, "worker:1", true, 0).empty());
  // The dead worker's next life does not get the split if others can take it.
  CHECK(failures.Withheld(0, "worker:0", true, 0) == std::set<uint64_t>{3});
  CHECK(failures.Withheld(0, "worker:0", false, 0).empty());
}

TEST_CASE("a death counts once a busy worker is heard that was there before") {
  Effects effects;
  Failures failures = Make(effects);
  failures.NoteDeath(DeathAt(1000, true));
  failures.LedgersAsked();
  failures.PlaceDeaths(0, {4, 4, 4, 2}, 1000);
  int64_t heard_ms = 1000;
  const auto heard = [&](uint64_t) { return std::optional(heard_ms); };
  CHECK(failures.JudgeDeaths(heard).empty());
  heard_ms = 2000;
  const std::vector<Failures::Judged> judged = failures.JudgeDeaths(heard);
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].verdict == Failures::Verdict::kReject);
  CHECK(judged[0].split == 3);
  CHECK(failures.JudgeDeaths(heard).empty());
}

TEST_CASE("a death that nobody outlived, or whose batch nobody can tell, counts for nothing") {
  Effects effects;
  Failures failures = Make(effects);
  failures.NoteDeath(DeathAt(0, false));
  failures.LedgersAsked();
  failures.PlaceDeaths(0, {4, 4, 4, 2}, 0);
  const auto gone = [](uint64_t) { return std::optional<int64_t>(); };
  const std::vector<Failures::Judged> judged = failures.JudgeDeaths(gone);
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].verdict == Failures::Verdict::kTryAgain);
  failures.NoteDeath(DeathAt(0, true));
  failures.LedgersAsked();
  failures.LedgersLost();
  failures.PlaceDeaths(0, {4, 4, 4, 2}, 0);
  CHECK(failures.JudgeDeaths(gone).empty());
}

TEST_CASE("a worker whose batches are all entered died of none of them") {
  Effects effects;
  Failures failures = Make(effects);
  failures.NoteDeath(DeathAt(0, true));
  failures.LedgersAsked();
  failures.PlaceDeaths(0, {4, 4, 4, 4}, 0);
  CHECK(failures.last().empty());
  CHECK(effects.Take().empty());
}

// A worker dies with leases of lanes 1, 2 and 0, in this order. `reported`: its progress in each
// lane.
WorkerDeath DeathInRounds(std::vector<uint32_t> reported) {
  WorkerDeath death{"worker:0", "its connection broke", {}, 0, {kBusy}, {}, {}};
  for (const uint64_t lane : {1, 2, 0}) {
    death.leases.push_back(
        {.id = 1 + lane, .session = 10, .split = lane, .next = reported[lane], .end = 6});
  }
  return death;
}

TEST_CASE("with lanes a worker died of the batch that was the furthest behind") {
  Effects effects;
  Failures failures = Make(effects);
  const auto died_of = [&](std::vector<uint32_t> reported, std::vector<uint32_t> entered,
                           LeaseOrder order) {
    failures.NoteDeath(DeathInRounds(std::move(reported)));
    failures.LedgersAsked();
    failures.PlaceDeaths(0, entered, 0, order);
    return failures.last().substr(0, std::string("batch 3 of split 1").size());
  };
  CHECK(died_of({0, 0, 0}, {3, 3, 3}, LeaseOrder::kByRound) == "batch 3 of split 0");
  CHECK(died_of({0, 0, 0}, {4, 4, 3}, LeaseOrder::kByRound) == "batch 3 of split 2");
  CHECK(died_of({5, 0, 0}, {4, 4, 4}, LeaseOrder::kByRound) == "batch 4 of split 0");
  // The ledgers lack batches in the open sum of the round.
  CHECK(died_of({4, 0, 3}, {3, 3, 3}, LeaseOrder::kByReportedRound) == "batch 3 of split 1");
  CHECK(died_of({4, 4, 3}, {3, 3, 3}, LeaseOrder::kByReportedRound) == "batch 3 of split 2");
  CHECK(died_of({0, 0, 0}, {6, 6, 5}, LeaseOrder::kByReportedRound) == "batch 5 of split 2");
  // Workers do not compute rejected batches.
  failures.Add(BatchOf(0, 0, 3), FailureKind::kData, "worker:1", false, "row 3");
  failures.LedgersAsked();
  const Ledger empty;
  REQUIRE(failures.Decide({&empty}, 4));
  failures.Saved();
  CHECK(died_of({0, 0, 0}, {3, 3, 3}, LeaseOrder::kByReportedRound) == "batch 3 of split 1");
}

TEST_CASE("a rejection is decided only by ledgers that were asked for after it") {
  Effects effects;
  Failures failures = Make(effects);
  BatchId batch;
  batch.set_split(1);
  batch.set_batch(2);
  failures.LedgersAsked();
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", false, "row 3") ==
        Failures::Verdict::kReject);
  const Ledger empty;
  CHECK_FALSE(failures.Decide({&empty}, 4));
  CHECK(failures.counts().All().empty());
  failures.LedgersAsked();
  CHECK(failures.Decide({&empty}, 4));
  CHECK(failures.counts().All().size() == 1);
}

TEST_CASE("a batch that some partition has entered is not rejected the first time") {
  Effects effects;
  Failures failures = Make(effects);
  BatchId batch;
  batch.set_epoch(1);
  batch.set_split(1);
  failures.Add(batch, FailureKind::kData, "worker:0", false, "row 3");
  failures.LedgersAsked();
  Ledger entered;
  entered.add_finished()->set_last(5);  // with four splits an epoch, split 1 of epoch 1 is number 5
  CHECK_FALSE(failures.Decide({&entered}, 4));
  CHECK(failures.counts().All().empty());
}

TEST_CASE("a batch that some partition has is rejected the second time, or never by all or none") {
  const bool by_all_or_none = GENERATE(true, false);
  Effects effects;
  Failures failures = Make(effects);
  const Ledger empty;
  Ledger entered;
  entered.add_finished()->set_last(1);
  for (const int time : {1, 2}) {
    CHECK_FALSE(failures.counts().PendingAgain().has_value());
    failures.Add(BatchOf(0, 1, 2), FailureKind::kData, "worker:0", false, "row 3");
    CHECK(failures.counts().PendingAgain().has_value() == (time == 2));
    failures.LedgersAsked();
    const bool decided = failures.Decide({&entered, &empty}, 4, by_all_or_none);
    CHECK(decided == (time == 2 && !by_all_or_none));
  }
  if (!by_all_or_none) return;
  // All partitions have loaded a checkpoint from before the batch.
  failures.Add(BatchOf(0, 1, 2), FailureKind::kData, "worker:0", false, "row 3");
  CHECK(failures.counts().PendingAgain()->batch() == 2);
  failures.LedgersAsked();
  CHECK(failures.Decide({&empty}, 4, by_all_or_none));
}

TEST_CASE("a batch that all partitions have is tried no more by all or none, however it fails") {
  Effects effects;
  Failures failures = Make(effects);
  Ledger entered;
  entered.add_finished()->set_last(1);
  for (int time = 0; time < 4; ++time) {
    failures.Add(BatchOf(0, 1, 2), FailureKind::kData, "worker:0", false, "row 3");
    CHECK_FALSE(failures.counts().PendingAgain().has_value());
    failures.LedgersAsked();
    CHECK_FALSE(failures.Decide({&entered, &entered}, 4, /*by_all_or_none=*/true));
  }
}

}  // namespace
}  // namespace paracord
