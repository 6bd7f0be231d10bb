#include "coordinator/core/checkpoint_rounds.h"

#include <catch2/catch.hpp>

#include "coordinator/core/limits.h"

namespace paracord {
namespace {

constexpr uint32_t kPs = 2;

// Begins a round and collects the snapshots of all ps.
void Collect(CheckpointRounds& rounds, bool complete = false) {
  rounds.Begin(1, complete, kPs, 0, 0);
  rounds.DirectoryMade();
  for (uint32_t ps = 0; ps < kPs; ++ps) {
    rounds.Ask(ps);
    CHECK(rounds.TakeSnapshot(ps, PsReply(SnapshotReply()), true) ==
          (ps + 1 < kPs ? CheckpointRounds::SnapshotOutcome::kTaken
                        : CheckpointRounds::SnapshotOutcome::kAll));
  }
}

TEST_CASE("a round asks every ps, commits once all have answered, and is over when that is done") {
  Effects effects;
  CheckpointRounds rounds(4, 0, effects);
  Collect(rounds);
  CHECK(rounds.IsRunning(5));
  CHECK(rounds.Collecting());
  rounds.Commit(Manifest(), CheckpointName(), 1);
  CHECK_FALSE(rounds.Collecting());
  const std::vector<Effect> emitted = effects.Take();
  REQUIRE(emitted.size() == 2);
  CHECK(std::holds_alternative<MakeRoundDirectory>(emitted[0]));
  CHECK(std::get<CommitRound>(emitted[1]).round == 5);
  CHECK(rounds.Finish(10).replies.size() == kPs);
  CHECK_FALSE(rounds.running());
}

TEST_CASE("a round orders what it may continue, and is full otherwise") {
  Effects effects;
  CheckpointRounds rounds(0, 0, effects);
  const auto chain = GENERATE(std::optional<std::vector<std::string>>(),
                              std::vector<std::string>{"step-8-g1-r7", "step-6-g1-r6"});
  rounds.Begin(1, false, kPs, 0, 0, chain);
  const std::vector<Effect> emitted = effects.Take();
  REQUIRE(emitted.size() == 1);
  CHECK(std::get<MakeRoundDirectory>(emitted[0]).chain ==
        chain.value_or(std::vector<std::string>()));
  CHECK(rounds.Ask(0).base() == (chain.has_value() ? "step-8-g1-r7" : ""));
  CHECK(rounds.Ask(0).continued() == chain.has_value());
  rounds.ContinueNone();
  CHECK(rounds.Ask(1).base().empty());
}

TEST_CASE("an order that was lost is repeated while the ps is there, and then fails the round") {
  Effects effects;
  CheckpointRounds rounds(0, 0, effects);
  rounds.Begin(1, false, kPs, 0, 0);
  const absl::StatusOr<PsReply> lost = absl::UnavailableError("no connection");
  CHECK(rounds.TakeSnapshot(0, lost, true) ==
        CheckpointRounds::SnapshotOutcome::kIgnored);  // not asked for
  rounds.DirectoryMade();
  rounds.Ask(0);
  CHECK(rounds.TakeSnapshot(0, lost, false) == CheckpointRounds::SnapshotOutcome::kFailed);
  CHECK(rounds.TakeSnapshot(0, lost, true) == CheckpointRounds::SnapshotOutcome::kAskAgain);
  rounds.Ask(0);
  rounds.Ask(0);
  CHECK(rounds.TakeSnapshot(0, lost, true) == CheckpointRounds::SnapshotOutcome::kFailed);
}

TEST_CASE("a commit that may have happened is repeated, the final one for ever") {
  const absl::Status failed = absl::UnavailableError("the disk is full");
  for (const bool complete : {false, true}) {
    Effects effects;
    CheckpointRounds rounds(0, 0, effects);
    Collect(rounds, complete);
    rounds.Commit(Manifest(), CheckpointName(), 1);
    for (int tries = 1; tries <= 2; ++tries) {
      CHECK_FALSE(rounds.CommitFailed(failed, 0));
      CHECK_FALSE(rounds.CommitDue(kRepeatMs - 1));
      CHECK(rounds.CommitDue(kRepeatMs));
      rounds.CommitAgain(CheckpointName(), 1);
    }
    CHECK(rounds.problem() == "the disk is full");
    CHECK(rounds.CommitFailed(failed, 0) == !complete);
  }
}

TEST_CASE("a commit that cannot have happened is given up at once") {
  Effects effects;
  CheckpointRounds rounds(0, 0, effects);
  Collect(rounds, true);
  rounds.Commit(Manifest(), CheckpointName(), 1);
  CHECK(rounds.CommitFailed(absl::NotFoundError("the directory is gone"), 0));
}

TEST_CASE("a periodic round begins after a while if batches were computed since the last one") {
  Effects effects;
  CheckpointRounds rounds(0, 10, effects);
  rounds.BeginLater(0);
  CHECK_FALSE(rounds.Due(9999, true, 1));
  CHECK(rounds.Due(10000, false, 1));
  rounds.Begin(1, false, 0, 1, 10000);
  CHECK_FALSE(rounds.Due(20000, true, 2));  // a round is open
  rounds.Fail("no space", 10000);
  CHECK_FALSE(rounds.Due(10001, true, 1));
  CHECK(rounds.Due(20000, false, 1));  // no checkpoint holds the computed batches
  rounds.Begin(1, false, 0, 1, 20000);
  rounds.Commit(Manifest(), CheckpointName(), 1);
  rounds.Finish(20000);
  CHECK_FALSE(rounds.Due(40000, false, 1));
  CHECK(rounds.Due(40000, true, 1));
  CHECK(rounds.Due(40000, false, 2));
}

TEST_CASE("training waits for a checkpoint of the best evaluation only so often") {
  Effects effects;
  CheckpointRounds rounds(0, 0, effects);
  rounds.WantBest(true);
  for (int tries = 1; tries <= 3; ++tries) {
    CHECK_FALSE(rounds.BestGivenUp());
    CHECK(rounds.Due(100000, false, 0));
    rounds.Begin(1, false, kPs, 0, 0);
    CHECK(rounds.Fail("no space", 0) == (tries == 3));
  }
  CHECK_FALSE(rounds.best_wanted());
  CHECK(rounds.BestGivenUp());
  rounds.NewResult();
  CHECK_FALSE(rounds.BestGivenUp());
}

}  // namespace
}  // namespace paracord
