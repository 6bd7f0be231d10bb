#include "coordinator/core/shutdown.h"

#include <catch2/catch.hpp>

#include "coordinator/core/limits.h"
#include "coordinator/core/phases.h"
#include "coordinator/core/state_writer.h"
#include "coordinator/core/summary_writer.h"

namespace paracord {
namespace {

constexpr Shutdown::Others kAllTold{
    .ps_told = true, .workers_told = true, .workers_named = true, .written = true};

TEST_CASE("a planned end waits for a checkpoint until its deadline") {
  Shutdown end;
  CHECK_FALSE(end.Overdue(1'000'000));
  end.Plan({ExitCode::kDrained, "stopped", "SIGTERM"}, 5000);
  CHECK(end.planned());
  CHECK_FALSE(end.decided());
  CHECK_FALSE(end.Overdue(5000));
  CHECK(end.Overdue(5001));
}

TEST_CASE("a coordinator exits once, when all are told and all is written") {
  Shutdown end;
  end.Decide(ExitCode::kDone, "the job is done", false, 10000);
  CHECK(end.told());
  Shutdown::Others others = kAllTold;
  others.written = false;
  CHECK_FALSE(end.ExitsNow(others, 0, 10000));
  others = kAllTold;
  others.ps_told = false;
  CHECK_FALSE(end.ExitsNow(others, 0, 10000));
  CHECK(end.ExitsNow(kAllTold, 0, 10000));
  CHECK_FALSE(end.ExitsNow(kAllTold, 0, 10000));
}

TEST_CASE("workers that ask late are waited for, but nobody is waited for without end") {
  Shutdown end;
  end.Decide(ExitCode::kFailed, "it failed", false, 10000);
  Shutdown::Others others = kAllTold;
  others.workers_told = false;
  CHECK_FALSE(end.ExitsNow(others, 0, 12000));
  CHECK(end.ExitsNow(others, 0, 12001));
  Shutdown done;
  done.Decide(ExitCode::kDone, "the job is done", false, 10000);
  CHECK_FALSE(done.ExitsNow(others, 0, 10500));
  CHECK(done.ExitsNow(others, 0, 10501));  // later processes learn of the end from DIR
}

TEST_CASE("the first decision stands, and a drained coordinator leaves alone") {
  Shutdown end;
  end.Decide(ExitCode::kDrained, "SIGTERM", false, 0);
  end.Decide(ExitCode::kFailed, "too late", false, 0);
  CHECK(end.exit().reason == "SIGTERM");
  CHECK(end.alone());
  CHECK_FALSE(end.told());
  end.Fenced();
  CHECK(end.exit().code == static_cast<int>(ExitCode::kFenced));
}

TEST_CASE("the last word is never written behind a claim of our own") {
  Effects effects;
  Generation generation(1);
  SummaryWriter word(effects);
  generation.BeginClaim();
  word.Say("failed", generation);
  CHECK(effects.Take().empty());
  CHECK(word.pending());
  generation.EndClaim(2, absl::OkStatus(), 0);
  word.ClaimEnded(generation);
  const std::vector<Effect> emitted = effects.Take();
  REQUIRE(emitted.size() == 1);
  CHECK(std::get<WriteSummary>(emitted[0]).generation == 2);
  word.Written();
  CHECK_FALSE(word.pending());
}

TEST_CASE("the word of a job that is done is written again after a failure, but not for ever") {
  Effects effects;
  const Generation generation(1);
  SummaryWriter word(effects);
  word.SayDone("done", generation);
  CHECK(word.done());
  CHECK(effects.Take().size() == 1);
  word.Tick(generation, 0);
  CHECK(effects.Take().empty());
  CHECK_FALSE(word.Failed(1000));
  word.Tick(generation, 1000 + kRepeatMs - 1);
  CHECK(effects.Take().empty());
  word.Tick(generation, 1000 + kRepeatMs);
  CHECK(effects.Take().size() == 1);
  int tries = 1;
  while (!word.Failed(0)) ++tries;
  CHECK(tries == 29);
}

TEST_CASE("one write of job.state is under way, and what changed meanwhile is written after it") {
  StateWriter writer;
  CHECK_FALSE(writer.Begin(/*claiming=*/true));
  CHECK(writer.Due(0));
  CHECK(writer.Begin(false));
  CHECK_FALSE(writer.again());
  CHECK_FALSE(writer.Begin(false));
  CHECK_FALSE(writer.Due(0));
  writer.End(absl::OkStatus(), 0);
  CHECK(writer.Due(0));
  CHECK(writer.Begin(false));
  writer.End(absl::UnavailableError("the disk is full"), 100);
  CHECK(writer.problem() == "the disk is full");
  CHECK_FALSE(writer.Due(100 + kRepeatMs - 1));
  CHECK(writer.Due(100 + kRepeatMs));
}

TEST_CASE("a cluster forms once, and only training counts as training") {
  Phases phases(0);
  CHECK_FALSE(phases.Begin(Phase::kLoading, 10));
  CHECK_FALSE(phases.formed());
  CHECK(phases.Begin(Phase::kTraining, 20));
  CHECK(phases.formed_ms() == 20);
  CHECK(phases.TrainingMs(50) == 30);
  CHECK_FALSE(phases.Begin(Phase::kEvaluating, 60));
  CHECK(phases.TrainingMs(100) == 40);
  CHECK(phases.serving());
  phases.Begin(Phase::kEnded, 100);
  CHECK(phases.ended());
  CHECK_FALSE(phases.serving());
}

}  // namespace
}  // namespace paracord
