// Lives of workers and coordinators that overlap or follow each other, and ends of jobs.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("an earlier life of a worker that comes back is sent away, and no batch suffers") {
  CoreHarness harness;
  harness.Join("worker:0");
  const uint64_t old_life = harness.Join("worker:1", 40, 0, "old");
  REQUIRE(old_life != 0);
  for (int i = 0; i < 20; ++i) {
    const uint64_t new_life = harness.Join("worker:1", 40, 0, "new");
    REQUIRE(new_life != 0);
    REQUIRE(harness.Work(new_life).has_lease());
    CHECK(harness.Work(old_life).has_rejoin());
    CHECK(harness.Join("worker:1", 40, 0, "old") == 0);
    CHECK(harness.joins[harness.call].leave().exit_code() == static_cast<int>(ExitCode::kInUse));
    harness.Run(200);
  }
  CHECK_FALSE(harness.exit.has_value());
  CHECK(harness.log.find("the worker died") == std::string::npos);
  CHECK(harness.log.find("rejected") == std::string::npos);
}

TEST_CASE("a life that fell silent before another took its place is sent away too") {
  CoreHarness harness([](Job& job) { job.timeouts.worker_ms = 500; });
  REQUIRE(harness.Join("worker:0", 40, 0, "old") != 0);
  harness.Run(1000);
  const uint64_t session = harness.Join("worker:0", 40, 0, "new");
  REQUIRE(session != 0);
  CHECK(harness.Join("worker:0", 40, 0, "old") == 0);
  CHECK(harness.joins[harness.call].leave().exit_code() == static_cast<int>(ExitCode::kInUse));
  CHECK(harness.Work(session).has_lease());
}

TEST_CASE("a coordinator that only leaves itself tells no worker to leave") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  harness.hold_summary = true;
  harness.Feed(DrainEvent());
  harness.Run(200);
  REQUIRE(harness.core->phase() == Phase::kEnded);
  REQUIRE_FALSE(harness.exit.has_value());
  CHECK_FALSE(harness.Work(session).has_leave());
  CHECK_FALSE(harness.Work(session + 100).has_leave());
}

TEST_CASE("a ps that holds what was trained keeps the job alive past the start-up deadline") {
  const auto edit = [](Job& job) { job.timeouts.start_s = 5; };
  CoreHarness earlier(edit);
  earlier.Join("worker:0");
  earlier.Run(200);
  CoreHarness later(
      [&](Job& job) {
        edit(job);
        job.timeouts.ps_return_s = 60;
      },
      After(earlier), &earlier, /*away=*/{1});
  later.Run(20000);
  CHECK_FALSE(later.exit.has_value());
  later.Feed(DrainEvent());
  later.Run(1000);
  CHECK_FALSE(later.exit.has_value());  // ps:1 may come back before drain_ms is over
  later.dead.clear();
  later.Run(5000);
  REQUIRE(later.exit.has_value());
  CHECK(later.exit->reason == "SIGTERM, after a checkpoint");
  CHECK(later.committed.size() == 1);
}

TEST_CASE("a ps is looked at while another is waited for") {
  CoreHarness earlier;
  earlier.Join("worker:0");
  earlier.Run(200);
  CoreHarness later({}, After(earlier), &earlier, /*away=*/{1});
  later.Run(60000);
  CHECK(later.now - later.looked_ms.at(0) <= 5000);
  later.ps[0].set_boot_id("another life");
  later.ps[0].clear_run_id();
  later.ps[0].clear_partitions();
  later.Run(5000);  // noticed before the other ps is back
  CHECK(later.log.find("ps:0 is away: it was restarted") != std::string::npos);
}

TEST_CASE("a ps that lives on is told of another learning rate, and loads nothing") {
  CoreHarness earlier;
  earlier.Join("worker:0");
  earlier.Run(200);
  CoreHarness same({}, After(earlier), &earlier);
  same.Run(1000);
  CHECK(same.loads.empty());
  const auto slower = [](Job& job) { job.optimizer = {"sgd", {{"learning_rate", 0.001}}}; };
  CoreHarness later(slower, After(earlier), &earlier);
  later.Run(1000);
  REQUIRE(later.loads.size() == 2);
  for (const LoadRequest& load : later.loads) CHECK((load.keep() && load.checkpoint().empty()));
  CHECK(later.Join("worker:0") != 0);
}

TEST_CASE("a job that is soon over waits for workers that are only starting, but not for ever") {
  const std::string other = GENERATE("never comes", "comes late", "has just joined");
  CAPTURE(other);
  CoreHarness harness([](Job& job) { job.epochs = 1; });
  const uint64_t session = harness.Join("worker:0");
  std::vector<LeaseReport> reports;
  for (int split = 0; split < 2; ++split) {
    const WorkReply reply = harness.Work(session, std::exchange(reports, {}));
    REQUIRE(reply.has_lease());
    harness.Enter(reply.lease());
    reports.push_back(CoreHarness::Done(reply.lease()));
  }
  const uint64_t second = other == "has just joined" ? harness.Join("worker:1") : 0;
  harness.Work(session, reports);
  harness.Run(1000);
  CHECK(JsonOf(harness.summary).at("status") == "done");
  CHECK_FALSE(harness.exit.has_value());
  if (other == "comes late") {
    CHECK(harness.Join("worker:1") == 0);
    CHECK(harness.joins[harness.call].leave().exit_code() == 0);
  } else if (other == "has just joined") {
    CHECK(harness.Work(second).leave().reason() == "the job is done");
  }
  harness.Run(other == "never comes" ? 1500 : 100);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("where somebody else answers for a ps it is dialed anew, until it is there") {
  CoreHarness harness;
  harness.Run(1000);
  REQUIRE(harness.Join("worker:0") != 0);
  const bool other_ps = GENERATE(true, false);  // otherwise the ps is of another job
  CAPTURE(other_ps);
  const PsDescription right = harness.ps[0];
  harness.ps[0].set_boot_id("stranger");
  other_ps ? harness.ps[0].set_ps(1) : harness.ps[0].set_run_id("another");
  harness.Run(20000);
  CHECK(harness.dialed[0] >= 5);
  CHECK(harness.dialed[0] <= 20);  // once a second
  CHECK(harness.dialed[1] == 1);
  harness.ps[0] = right;
  harness.Run(3000);
  CHECK(harness.Join("worker:0", 40, 0, "later") != 0);
  const int in_all = harness.dialed[0];
  harness.Run(10000);
  CHECK(harness.dialed[0] == in_all);
  CHECK_FALSE(harness.exit.has_value());
}

TEST_CASE("a list of ps in another order than their tasks ends the job at once") {
  CoreHarness harness({}, {}, nullptr, /*away=*/{0, 1});
  for (uint32_t i = 0; i < 2; ++i) harness.ps[i].set_ps(1 - i);
  harness.dead.clear();
  harness.Run(3000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == static_cast<int>(ExitCode::kConfiguration));
  CHECK(harness.exit->reason.find("at unix:/ps-0 is ps:1, not ps:0") == 0);
  CHECK(harness.finished == std::set<uint32_t>{0, 1});  // both ps are told
}

TEST_CASE("another ps at the address of one that has left does not end a job that trains") {
  CoreHarness harness;
  harness.Join("worker:0");
  for (uint32_t i = 0; i < 2; ++i) harness.ps[i].set_ps(i);
  harness.dead.insert(1);
  harness.Feed(PsAnswerEvent{1, harness.hold_tags[1], absl::UnavailableError("gone")});
  harness.ps[1].set_ps(0);
  harness.ps[1].set_boot_id("boot-2");
  harness.dead.clear();
  harness.Run(3000);
  CHECK_FALSE(harness.exit.has_value());
  harness.ps[1].set_ps(1);
  harness.ps[1].clear_partitions();
  harness.ps[1].clear_run_id();
  harness.Run(1000);
  CHECK(harness.Join("worker:1") != 0);
}

TEST_CASE("a generation that ps obey and nobody has claimed here is gone beyond") {
  // Another coordinator's in our generation, or a newer one.
  const uint64_t obeyed = GENERATE(2, 7);
  const bool claimed = GENERATE(false, true);
  CAPTURE(obeyed, claimed);
  CoreHarness earlier;
  earlier.Join("worker:0");
  CoreHarness later({}, After(earlier), &earlier, /*away=*/{0, 1});
  REQUIRE(later.core->generation() == 2);
  for (PsDescription& ps : later.ps) {
    ps.set_generation(obeyed);
    ps.set_coordinator_boot_id("another");
  }
  if (claimed) later.claimed_by_other = obeyed + 1;
  later.dead.clear();
  later.Run(5000);
  if (claimed) {
    REQUIRE(later.exit.has_value());
    CHECK(later.exit->code == static_cast<int>(ExitCode::kFenced));
  } else {
    CHECK(later.core->generation() == obeyed + 1);
    CHECK(later.Join("worker:0") != 0);
    CHECK(later.log.find("/job holds no claim of generation " + std::to_string(obeyed)) !=
          std::string::npos);
  }
}

constexpr auto kOften = [](Job& job) {
  job.checkpoint.every_seconds = 1;
  job.checkpoint.keep = 1;
  job.timeouts.start_s = 40;
};

// Commits two checkpoints. Returns what the next coordinator finds, with the newest `count` of
// them.
FoundInDir AfterCheckpoints(CoreHarness& first, size_t count) {
  const uint64_t session = first.Join("worker:0");
  WorkReply work = first.Work(session);
  for (int round = 1; round <= 2; ++round) {
    REQUIRE(work.has_lease());
    first.Enter(work.lease());
    work = first.Work(session, {CoreHarness::Done(work.lease())});
    first.Run(1500);
  }
  REQUIRE(first.committed.size() == 2);
  FoundInDir found = After(first);
  found.manifests.assign(first.committed.rbegin(), first.committed.rend());
  found.manifests.resize(count);
  return found;
}

TEST_CASE("checkpoints that are gone end no job whose ps all hold their partitions") {
  CoreHarness first(kOften);
  CoreHarness second(kOften, AfterCheckpoints(first, 0), &first, {0, 1});
  second.hold_ledgers = true;
  second.dead.clear();
  second.Run(1000);
  REQUIRE(second.core->phase() == Phase::kLoading);
  // The answer to a question from before the ps were attached.
  second.Feed(NewestGenerationEvent{second.core->generation(), 0});
  CHECK(second.core->phase() == Phase::kLoading);
  second.ReleaseLedgers();
  CHECK(second.Work(second.Join("worker:0")).has_lease());
  CHECK(second.loads.empty());
}

TEST_CASE("the first state that a coordinator writes counts its own recovery") {
  CoreHarness first;
  REQUIRE(first.Join("worker:0") != 0);
  const CoreHarness second({}, After(first), &first);
  CHECK(ParseJobState(second.job_state, "job.state")->counters.coordinator_recoveries == 1);
}

TEST_CASE("a coordinator goes on counting the recoveries that the one before it has seen") {
  CoreHarness first([](Job& job) { job.timeouts.worker_ms = 500; });
  REQUIRE(first.Join("worker:0") != 0);
  first.Run(1000);  // the worker is silent
  first.ps[1].set_boot_id("boot-of-another-life");
  first.Run(1000);
  const JobCounters left = ParseJobState(first.job_state, "job.state")->counters;
  CHECK(left.worker_recoveries == 1);
  CHECK(left.ps_recoveries == 1);
  const CoreHarness second({}, After(first), &first);
  const JobCounters found = ParseJobState(second.job_state, "job.state")->counters;
  CHECK(found.worker_recoveries == 1);
  CHECK(found.ps_recoveries == 1);
}

TEST_CASE("the final round follows at once on a periodic one that commits when all is trained") {
  CoreHarness harness([](Job& job) { job.checkpoint.every_seconds = 1; });
  const uint64_t session = harness.Join("worker:0");
  harness.hold_commit = true;
  harness.Run(1500);
  REQUIRE(harness.committed.size() == 1);
  TrainAll(harness, session);
  REQUIRE(harness.core->phase() == Phase::kFinishing);
  harness.Feed(RoundCommittedEvent{harness.committed[0].name.round, absl::OkStatus()});
  REQUIRE(harness.committed.size() == 2);
  CHECK(harness.committed[1].complete);
}

TEST_CASE("a manifest whose metric names are none does not end the coordinator") {
  for (const nlohmann::json& names : {nlohmann::json(7), nlohmann::json({"loss", 7})}) {
    CoreHarness first(kOften);
    FoundInDir found = AfterCheckpoints(first, 1);
    found.job_state.reset();
    found.manifests[0].summary["metric_names"] = names;
    CoreHarness second(kOften, std::move(found));
    CHECK(second.Join("worker:0") != 0);
  }
}

TEST_CASE("a checkpoint that is damaged is left for the one before it") {
  CoreHarness first(kOften);
  CoreHarness second(kOften, AfterCheckpoints(first, 2), nullptr, {0, 1});
  second.damaged = first.committed[1].name.ToString();
  second.dead.clear();
  second.Run(3000);
  REQUIRE_FALSE(second.loads.empty());
  CHECK(second.loads.front().checkpoint() == second.damaged);
  CHECK(second.loads.back().checkpoint() == first.committed[0].name.ToString());
  CHECK(second.log.find("trying the one before it") != std::string::npos);
  CHECK(second.Join("worker:0") != 0);
}

TEST_CASE("a checkpoint that cannot be read is tried for a while, then left and never removed") {
  CoreHarness first(kOften);
  CoreHarness second(kOften, AfterCheckpoints(first, 2), nullptr, {0, 1});
  second.damaged = first.committed[1].name.ToString();
  second.damage = absl::StatusCode::kPermissionDenied;
  second.dead.clear();
  SECTION("it can be read after all") {
    second.Run(5000);
    second.damaged = "-";
    second.Run(2000);
    CHECK(second.loads.back().checkpoint() == first.committed[1].name.ToString());
    CHECK(second.Join("worker:0") != 0);
  }
  SECTION("the one before it is taken") {
    second.Run(15000);
    CHECK(second.loads.back().checkpoint() == first.committed[0].name.ToString());
    CHECK(second.log.find(second.damaged + "/ps-0, for 10 s") != std::string::npos);
    CHECK(second.log.size() < 2000);
    const uint64_t session = second.Join("worker:0");
    TrainAll(second, session);
    CHECK_FALSE(second.removed.empty());
    CHECK(std::ranges::count(second.removed, second.damaged) == 0);
  }
}

TEST_CASE("a job that is given fewer epochs than its ps have applied is refused") {
  CoreHarness first;
  const uint64_t session = first.Join("worker:0");
  for (int split = 0; split < 3; ++split) {
    const Lease lease = first.Work(session).lease();
    first.Enter(lease);
    first.Work(session, {CoreHarness::Done(lease)}, false);
  }
  CoreHarness second([](Job& job) { job.epochs = 1; }, After(first), &first);
  second.Run(3000);
  CHECK(second.committed.empty());
  REQUIRE(second.exit.has_value());
  CHECK(second.exit->code == static_cast<int>(ExitCode::kConfiguration));
  CHECK(second.exit->reason.find("epochs: that is 4 batches, but the job has come to batch 6") ==
        0);
}

TEST_CASE("a job that is given fewer steps than the batch that its ps have come to is refused") {
  CoreHarness first;
  first.Work(first.Join("worker:0"));  // split 0 stays open
  first.Enter(first.Work(first.Join("worker:1")).lease());
  const uint64_t steps = GENERATE(3, 4);
  const auto edit = [&](Job& job) { job.steps = steps; };
  CoreHarness second(edit, After(first), &first);
  second.Run(3000);
  REQUIRE(second.exit.has_value() == (steps == 3));
  if (steps == 4) return;
  CHECK(second.exit->code == static_cast<int>(ExitCode::kConfiguration));
  CHECK(second.exit->reason.find("steps: that is 3 batches, but the job has come to batch 4 on") ==
        0);
}

TEST_CASE("a job whose only checkpoint cannot be read ends with code 5") {
  CoreHarness first(kOften);
  CoreHarness second(kOften, AfterCheckpoints(first, 1), nullptr, {0, 1});
  second.damaged = first.committed[1].name.ToString();
  second.damage = absl::StatusCode::kUnknown;
  second.dead.clear();
  second.Run(15000);
  REQUIRE(second.exit.has_value());
  CHECK(second.exit->code == static_cast<int>(ExitCode::kNoCheckpoint));
  CHECK(second.exit->reason.find(second.damaged) != std::string::npos);
}

// Restarts ps:0. The coordinator claims a generation because of it.
void RestartPs(CoreHarness& harness) {
  harness.ps[0].set_boot_id("boot-new");
  harness.ps[0].clear_run_id();
  harness.ps[0].clear_partitions();
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("gone")});
  harness.Run(200);
}

TEST_CASE("what ends while a coordinator claims a generation is not taken for a rival's") {
  CoreHarness harness(kOften);
  harness.Join("worker:0");
  harness.hold_commit = harness.hold_claim = true;
  harness.Run(1500);
  REQUIRE(harness.committed.size() == 1);
  RestartPs(harness);
  REQUIRE(harness.claimed == 2);
  harness.Feed(RoundCommittedEvent{harness.committed[0].name.round, absl::OkStatus()});
  harness.Run(200);
  harness.Feed(GenerationClaimedEvent{2, absl::OkStatus()});
  harness.Run(200);
  CHECK_FALSE(harness.exit.has_value());
  CHECK(ParseJobState(harness.job_state, "job.state")->counters.checkpoints == 1);
  CHECK(harness.Join("worker:0") != 0);
}

TEST_CASE("a commit that failed is repeated by the same coordinator in its next generation") {
  CoreHarness harness(kOften);
  harness.Join("worker:0");
  harness.commit_status = absl::ResourceExhaustedError("no space left");
  harness.Run(1100);
  REQUIRE(harness.committed.size() == 1);
  harness.hold_claim = true;
  RestartPs(harness);
  harness.commit_status = absl::OkStatus();
  harness.Run(2000);
  CHECK(harness.committed.size() == 1);  // no round during a claim
  harness.Feed(GenerationClaimedEvent{2, absl::OkStatus()});
  harness.Run(200);
  CHECK_FALSE(harness.exit.has_value());
  REQUIRE(harness.committed.size() == 2);
  CHECK(harness.committed[1].name == harness.committed[0].name);
  CHECK(harness.log.find("checkpoint " + harness.committed[0].name.ToString()) !=
        std::string::npos);
}

TEST_CASE("a ps that has another DIR is named, and waited for until the start is over") {
  CoreHarness harness([](Job& job) { job.timeouts.start_s = 5; });
  harness.other_dir = "/job on host b";
  harness.Join("worker:0");
  harness.Run(1000);
  const std::string named =
      "ps:1 at unix:/ps-1 has another directory: its --dir, /job on host b, holds no generation-1, "
      "which was written into the coordinator's --dir, /job: ";
  CHECK(harness.log.find("ps:1 has another directory: ") != std::string::npos);
  CHECK(
      nlohmann::json::parse(harness.Told().StatusJson())["waiting"].get<std::string>().starts_with(
          named));
  const bool mended = GENERATE(true, false);
  if (mended) harness.other_dir.clear();
  harness.Run(mended ? 6000 : 20000);
  if (mended) {
    CHECK(harness.Work(harness.Join("worker:0")).has_lease());
    CHECK(harness.loads.back().claim() == "generation 1 of coordinator c1\n");
    return;
  }
  CAPTURE(harness.log);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == static_cast<int>(ExitCode::kConfiguration));
  CHECK(harness.exit->reason.find(named) != std::string::npos);
}

}  // namespace
}  // namespace paracord
