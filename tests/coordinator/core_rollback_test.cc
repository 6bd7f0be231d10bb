// In synchronous training all ps go back to one checkpoint, unless all partitions can serve one
// state.
#include <catch2/catch.hpp>

#include "coordinator/sync_job.h"

namespace paracord {
namespace {

using Names = std::vector<std::string>;

// Returns what the next coordinator finds, with the checkpoints of `earlier`.
FoundInDir AfterCuts(const SyncJob& earlier) {
  FoundInDir found = After(earlier);
  found.manifests.assign(earlier.committed.rbegin(), earlier.committed.rend());
  return found;
}

TEST_CASE("a synchronous job has lanes, and several ps keep the state before") {
  SyncJob job;
  REQUIRE(job.Join("worker:0") != 0);
  CHECK(job.core->View().record.plan().lanes() == 2);
  CHECK(job.core->View().record.plan().split_batches() == kSyncRounds);
  REQUIRE(job.loads.size() == 2);
  for (const LoadRequest& load : job.loads) CHECK((load.keeps_before() && !load.keep()));
  CHECK(job.Rounds().at("rollbacks") == 0);
  CoreHarness async;
  REQUIRE(async.Join("worker:0") != 0);
  CHECK_FALSE(async.loads.front().keeps_before());
}

TEST_CASE(
    "where a ps dies all load the newest checkpoint, and their lanes begin with its ledgers") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  job.TakeCut(session, 1);
  const std::string newest = job.TakeCut(session, 2);
  job.SetStates(3);
  job.Kill(1);
  CHECK(job.core->generation() == 2);
  CHECK(job.NewestLoads() == Names{newest, newest});
  CHECK(job.Logged("all parameter servers load " + newest + ": no ps holds partition "));
  const WorkReply reply = job.Work(job.Join("worker:0"));
  REQUIRE(reply.has_lease());
  CHECK(reply.lease().first_batch() == 2);
  CHECK(job.Rounds().at("rollbacks") == 1);
  CHECK(job.Rounds().at("state_min") == 2);
  CHECK(job.Rounds().at("round") == 2);
  CHECK(ParseJobState(job.job_state, "job.state")->counters.rollbacks == 1);
  job.Feed(DrainEvent());
  job.Run(3000);
  CHECK(JsonOf(job.summary).at("rounds").at("rollbacks") == 1);
}

TEST_CASE("where a ps dies before there is a checkpoint all begin anew") {
  SyncJob job;
  REQUIRE(job.Join("worker:0") != 0);
  job.SetStates(3);
  job.Kill(0);
  REQUIRE(job.loads.size() == 4);
  CHECK(job.NewestLoads() == Names{"", ""});
  CHECK(job.Logged("all parameter servers begin anew"));
  CHECK(job.Work(job.Join("worker:0")).lease().first_batch() == 0);
}

TEST_CASE("a later coordinator goes on with partitions that serve one state, and with no others") {
  SyncJob earlier(kOftenCut);
  const std::string cut = earlier.TakeCut(earlier.Join("worker:0"), 1);
  earlier.SetState(0, 3, /*serves_before=*/true);
  earlier.SetState(1, 2);
  SyncJob later({}, AfterCuts(earlier), &earlier);
  later.Run(500);
  CHECK(later.loads.empty());
  CHECK(later.Rounds().at("state_min") == 2);
  CHECK(later.Rounds().at("state_max") == 3);
  CHECK(later.Work(later.Join("worker:0")).lease().first_batch() == 2);

  earlier.SetState(0, 3);
  SyncJob torn({}, AfterCuts(earlier), &earlier);
  torn.Run(500);
  CHECK(torn.NewestLoads() == Names{cut, cut});
  CHECK(torn.Logged("rounds and partition"));
  CHECK(torn.Work(torn.Join("worker:0")).lease().first_batch() == 1);
}

TEST_CASE("loads wait for a commit under way, and all of them name what it has brought") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  const std::string older = job.TakeCut(session, 1);
  job.hold_commit = true;
  const std::string newer = job.TakeCut(session, 2);
  job.SetStates(3);
  job.Kill(1);
  job.Run(3000);
  CHECK(job.core->generation() == 2);
  CHECK(job.loads.size() == 2);  // only the first loads
  const uint64_t round = job.committed.back().name.round;
  const bool lands = GENERATE(true, false);
  job.hold_commit = false;
  job.Feed(RoundCommittedEvent{round, lands ? absl::OkStatus() : absl::NotFoundError("gone")});
  job.Run(500);
  const std::string& expected = lands ? newer : older;
  REQUIRE(job.loads.size() == 4);
  CHECK(job.NewestLoads() == Names{expected, expected});
}

TEST_CASE("partitions that go on wait for no commit") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  job.hold_commit = true;
  job.TakeCut(session, 2);
  // A connection breaks, and the ps returns without a restart.
  job.ps[1].set_boot_id("boot-1-again");
  job.Feed(PsAnswerEvent{1, job.hold_tags[1], absl::UnavailableError("cut off")});
  job.Run(500);
  CHECK(job.core->generation() == 2);
  CHECK(job.loads.size() == 2);
  CHECK(job.Join("worker:0") != 0);
}

TEST_CASE("a checkpoint that one ps cannot read is refused, and all load the one before it") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  const std::string older = job.TakeCut(session, 1);
  job.damaged = job.TakeCut(session, 5);  // in the second epoch, so in another checkpoint
  job.Kill(0);
  job.Run(500);
  CHECK(job.core->generation() == 3);
  CHECK(job.NewestLoads() == Names{older, older});
  CHECK(job.Work(job.Join("worker:0")).lease().first_batch() == 1);
}

TEST_CASE("a ps that was lost while it was to load goes on with nothing from before") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  const std::string cut = job.TakeCut(session, 1);
  job.SetStates(3);
  job.silent_load = true;
  job.Kill(1);
  REQUIRE(job.core->generation() == 2);
  REQUIRE(job.loads.size() == 4);
  // The connection breaks before the answer to the load. The coordinator describes the ps again.
  job.silent_load = false;
  for (const auto& [id, at] : job.called_load) {
    job.Feed(PsAnswerEvent{at, id, absl::UnavailableError("cut off")});
  }
  job.Run(1000);
  CHECK(job.core->generation() > 2);
  CHECK(job.NewestLoads() == Names{cut, cut});
}

TEST_CASE("another learning rate begins at a checkpoint, and no ps is told to keep what it has") {
  SyncJob earlier(kOftenCut);
  const std::string cut = earlier.TakeCut(earlier.Join("worker:0"), 2);
  earlier.SetStates(3);
  const auto slower = [](Job& job) { job.optimizer = {"sgd", {{"learning_rate", 0.001}}}; };
  SyncJob later(slower, AfterCuts(earlier), &earlier);
  later.Run(500);
  REQUIRE(later.loads.size() == 2);
  for (const LoadRequest& load : later.loads) CHECK_FALSE(load.keep());
  CHECK(later.NewestLoads() == Names{cut, cut});
  CHECK(later.Work(later.Join("worker:0")).lease().first_batch() == 2);
}

TEST_CASE("other timeouts and more epochs are taken over by what is held, and take nothing back") {
  SyncJob earlier(kOftenCut);
  earlier.TakeCut(earlier.Join("worker:0"), 2);
  earlier.SetStates(3);
  const auto longer = [](Job& job) {
    job.timeouts.orphan_ms = 77000;
    job.epochs += 3;
  };
  SyncJob later(longer, AfterCuts(earlier), &earlier);
  later.Run(500);
  REQUIRE(later.loads.size() == 2);
  for (const LoadRequest& load : later.loads) CHECK(load.keep());
  CHECK(later.Rounds().at("rollbacks") == 0);
  CHECK(later.Work(later.Join("worker:0")).lease().first_batch() == 3);
}

TEST_CASE("a job of which all checkpoints are lost ends where it would have to go back") {
  SyncJob earlier(kOftenCut);
  earlier.TakeCut(earlier.Join("worker:0"), 1);
  earlier.Run(100);
  earlier.SetState(0, 3);
  earlier.SetState(1, 2);
  SyncJob later({}, After(earlier), &earlier);
  later.Run(3000);
  CHECK(later.loads.empty());
  CHECK(later.core->phase() == Phase::kEnded);
  CHECK(JsonOf(later.summary).at("reason").get<std::string>().find("no checkpoint can be") == 0);
}

LeaseReport UnreadableReport(const Lease& lease) {
  LeaseReport report;
  report.set_lease(lease.id());
  report.set_next(lease.first_batch());
  report.set_ended(true);
  report.set_problem(PROBLEM_DATA);
  report.set_message("a bad record");
  return report;
}

// A worker gets a lane whose first batch has no state.
void FindGap(SyncJob& job, uint64_t session) {
  const WorkReply reply = job.Work(session);
  REQUIRE(reply.has_lease());
  LeaseReport report;
  report.set_lease(reply.lease().id());
  report.set_next(reply.lease().first_batch());
  report.set_ended(true);
  report.set_problem(PROBLEM_GAP);
  job.Work(session, {report}, false);
  job.Run(500);
}

// A worker gets a lane whose first batch fails. Returns the lane.
uint64_t FailOnce(SyncJob& job) {
  const WorkReply reply = job.Work(job.Join("worker:0"));
  REQUIRE(reply.has_lease());
  job.Work(job.core->View().sessions.all().begin()->first, {UnreadableReport(reply.lease())},
           false);
  job.Run(500);
  return reply.lease().split();
}

std::vector<RejectedBatch> Rejected(const SyncJob& job) {
  return ParseJobState(job.job_state, "job.state")->rejected;
}

TEST_CASE("a rejection always begins a new generation, which drops what is in the sums") {
  SyncJob job;
  FailOnce(job);
  CHECK(job.core->generation() == 2);
  CHECK(Rejected(job).size() == 1);
  CHECK(job.loads.size() == 2);  // no rollback because of it
  CoreHarness async([](Job& said) { said.failures = {true, 1, 1.0, 1}; });
  const uint64_t session = async.Join("worker:0");
  async.Work(session, {UnreadableReport(async.Work(session).lease())}, false);
  async.Run(500);
  CHECK(async.core->generation() == 1);
}

TEST_CASE(
    "a batch that some partition has, and that fails again, is rejected where nobody has it") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  job.TakeCut(session, 1);
  FindGap(job, session);  // makes the coordinator read the ledgers
  const std::string cut = job.committed.back().name.ToString();
  job.SetState(0, 2, /*serves_before=*/true);
  FailOnce(job);
  CHECK(Rejected(job).empty());
  CHECK(job.Logged("is not rejected: some partition has it already"));
  CHECK(job.loads.size() == 2);
  FailOnce(job);
  CHECK(job.core->generation() == 3);
  CHECK(job.NewestLoads() == Names{cut, cut});
  CHECK(job.Logged("fails again, and some partition has it"));
  REQUIRE(Rejected(job).size() == 1);
  CHECK(Rejected(job)[0].batch == 1);
  const WorkReply told = job.Work(job.Join("worker:0"));
  REQUIRE(told.has_lease());
  CHECK(told.lease().first_batch() == 1);
}

TEST_CASE("a state that three reports in a row miss, while nothing comes further, is lost") {
  SyncJob job(kOftenCut);
  const uint64_t session = job.Join("worker:0");
  job.TakeCut(session, 1);
  FindGap(job, session);  // another worker has computed batch 0
  SECTION("all go back") {
    job.SetState(1, 2);  // this ps no longer has the state before
    for (int i = 0; i < 3; ++i) {
      CHECK(job.core->generation() == 1);
      FindGap(job, session);
    }
    CHECK(job.core->generation() == 2);
    const std::string cut = job.committed.back().name.ToString();
    CHECK(job.NewestLoads() == Names{cut, cut});
    CHECK(job.Logged("no parameter server has the values that batch 1 of split 0 of epoch 1"));
    CHECK(job.Join("worker:0") != 0);
  }
  SECTION("but one that each partition serves is not, whatever one worker says") {
    const uint64_t sound = job.Join("worker:1");
    FindGap(job, session);
    CHECK(job.Logged("worker:0 reports that values are gone which the ps have"));
    for (int i = 0; i < 6; ++i) {
      CHECK_FALSE(job.Work(session).has_lease());
      job.Run(500);
    }
    CHECK(job.Work(sound).has_lease());
    job.Run(10000);
    for (int i = 0; i < 3; ++i) job.Run(500);
    CHECK(job.core->generation() == 1);
  }
  SECTION("nor is one of which a lone worker says so") {
    for (int i = 0; i < 9; ++i) FindGap(job, session);
    CHECK(job.core->generation() == 1);
  }
  SECTION("unless something comes further") {
    job.SetState(1, 2);
    for (uint64_t i = 0; i < 6; ++i) {
      FindGap(job, session);
      if (i % 2 == 1) job.SetState(0, 1 + i % 4, /*serves_before=*/true);
    }
    CHECK(job.core->generation() == 1);
  }
}

TEST_CASE("evaluations of epochs behind the checkpoint are voided, and those before it stay") {
  const bool behind = GENERATE(true, false);
  SyncJob job(kOftenCut);
  job.tests = 10;
  const uint64_t session = job.Join("worker:0");
  if (behind) job.TakeCut(session, 3);
  job.SetStates(4);
  job.Run(200);
  WorkReply reply;
  for (int i = 0; i < 20 && !reply.has_evaluation(); ++i) {
    reply = job.Work(session);
    if (reply.has_lease()) job.Work(session, {CoreHarness::Done(reply.lease())}, false);
    job.Run(100);
  }
  REQUIRE(reply.has_evaluation());
  WorkRequest scored;
  scored.set_session(session);
  scored.mutable_evaluation()->set_lease(reply.evaluation().id());
  scored.mutable_evaluation()->set_examples(10);
  scored.mutable_evaluation()->add_metrics()->add_values(1);
  scored.mutable_evaluation()->mutable_metrics(0)->add_values(10);
  job.Feed(WorkEvent{++job.call, scored});
  job.Run(200);
  REQUIRE(job.core->View().evaluations.results().size() == 1);
  if (!behind) job.TakeCut(session, 4);
  job.Kill(0);
  CHECK(job.core->View().evaluations.results().size() == (behind ? 0 : 1));
}

}  // namespace
}  // namespace paracord
