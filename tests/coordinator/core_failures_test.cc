// Batches that fail: counted, rejected in all partitions alike, or the end of the job.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("too many rejected batches end the job with the code for divergence") {
  CoreHarness harness([](Job& job) { job.failures = {true, 2, 0.1}; });
  const uint64_t session = harness.Join("worker:0");
  for (int i = 0; i < 2; ++i) {
    const WorkReply reply = harness.Work(session);
    REQUIRE(reply.has_lease());
    LeaseReport report;
    report.set_lease(reply.lease().id());
    report.set_ended(true);
    report.set_problem(PROBLEM_NONFINITE);
    report.set_message("the loss is nan");
    harness.Work(session, {report}, false);
  }
  harness.Run(1500);
  CHECK_FALSE(harness.exit.has_value());
  CHECK(harness.Join("worker:1") == 0);  // a late worker is also told the end
  CHECK(harness.joins[harness.call].leave().exit_code() == 6);
  harness.Run(1000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 6);
  CHECK(JsonOf(harness.summary).at("status") == "failed");
}

TEST_CASE("a limit ends the job with the code for its configuration, and no batch is rejected") {
  CoreHarness harness([](Job& job) { job.failures = {true, 2, 1.0}; });
  const uint64_t session = harness.Join("worker:0");
  for (int i = 0; i < 2; ++i) {
    const WorkReply reply = harness.Work(session);
    REQUIRE(reply.has_lease());
    CHECK(reply.lease().rejected_size() == 0);
    LeaseReport report;
    report.set_lease(reply.lease().id());
    report.set_ended(true);
    report.set_problem(PROBLEM_LIMIT);
    report.set_message("a batch of 9 ids is more than this ps takes: a smaller \"batch\"");
    harness.Work(session, {report}, false);
  }
  harness.Run(2500);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 2);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("status") == "failed");
  CHECK(summary.dump().find("a batch of 9 ids is more than this ps takes") != std::string::npos);
}

TEST_CASE(
    "status says why a job fails at once, while its last checkpoint is taken, and at its end") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 0.01}; });
  const uint64_t session = harness.Join("worker:0");
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.round_status = absl::UnavailableError("no storage");
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  CHECK_FALSE(status().contains("ending"));
  LeaseReport report;
  report.set_lease(reply.lease().id());
  report.set_ended(true);
  report.set_problem(PROBLEM_NONFINITE);
  report.set_message("the loss is nan");
  harness.Work(session, {report}, false);
  harness.Run(1000);
  const auto says = [](const nlohmann::json& end) {
    CHECK(end.at("code") == 6);
    const auto reason = end.at("reason").get<std::string>();
    CHECK(reason.find("failures.rejected_max") != std::string::npos);
    CHECK(reason.find("a lower optimizer.learning_rate") != std::string::npos);
  };
  REQUIRE(status().contains("ending"));
  says(status().at("ending"));
  CHECK(status().at("ending").at("status") == "failed");
  CHECK_FALSE(status().contains("exit"));
  harness.Run(26000);
  CHECK(status().at("phase") == "ended");
  CHECK_FALSE(status().contains("ending"));
  REQUIRE(status().contains("exit"));
  says(status().at("exit"));
}

TEST_CASE("a job whose variables are not finite at its end has diverged, after a checkpoint") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  harness.ps[0].mutable_partitions(0)->set_healthy(false);
  TrainAll(harness, session);
  harness.Run(3000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 6);
  REQUIRE(harness.committed.size() == 1);
  CHECK_FALSE(harness.committed[0].complete);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("status") == "failed");
  CHECK(summary.at("reason").get<std::string>().find("that is not finite") != std::string::npos);
}

LeaseReport Unreadable(const Lease& lease) {
  LeaseReport report;
  report.set_lease(lease.id());
  report.set_ended(true);
  report.set_problem(PROBLEM_DATA);
  report.set_message("a bad record");
  return report;
}

TEST_CASE("a worker that fails rests while others may do better, and only then") {
  const bool all_fail = GENERATE(false, true);
  CoreHarness harness([](Job& job) { job.failures = {true, 3, 0.6}; });
  const uint64_t sessions[] = {harness.Join("worker:0"), harness.Join("worker:1")};
  const int64_t begin = harness.now;
  bool rested = false;
  while (!harness.exit.has_value() && harness.now - begin < 60000) {
    for (const uint64_t session : sessions) {
      const WorkReply reply = harness.Work(session);
      if (harness.exit.has_value() || !reply.has_lease()) continue;
      if (!all_fail && session == sessions[1]) continue;  // the worker is busy
      LeaseReport report = Unreadable(reply.lease());
      // After the rejected batches.
      report.set_next(static_cast<uint32_t>(reply.lease().rejected_size()));
      const bool through = report.next() == reply.lease().end_batch();
      harness.Work(session, {through ? CoreHarness::Done(reply.lease()) : report}, false);
    }
    harness.Run(kTickMs);
    rested = rested || harness.Told().StatusJson().find("\"resting\":true") != std::string::npos;
    if (!all_fail && harness.now - begin > 5000) break;
  }
  if (!all_fail) CHECK(rested);
  CHECK(harness.exit.has_value() == all_fail);
  if (all_fail) CHECK(harness.now - begin < 5000);
}

TEST_CASE("a rejection is in job.state before anybody is told, and a later coordinator tells it") {
  const auto job = [](Job& edited) { edited.failures = {true, 1, 1.0}; };
  CoreHarness harness(job);
  const uint64_t session = harness.Join("worker:0");
  const WorkReply first = harness.Work(session);
  REQUIRE(first.has_lease());
  harness.hold_state = true;
  const WorkReply meanwhile = harness.Work(session, {Unreadable(first.lease())});
  REQUIRE(meanwhile.has_lease());
  CHECK(meanwhile.lease().split() != first.lease().split());  // the failing split is withheld
  harness.Run(200);
  const WorkReply none = harness.Work(session, {CoreHarness::Done(meanwhile.lease())});
  CHECK_FALSE(none.has_lease());
  REQUIRE(ParseJobState(harness.job_state, "job.state")->rejected.size() == 1);
  harness.hold_state = false;
  harness.Feed(JobStateWrittenEvent{absl::OkStatus()});
  harness.Run(200);
  const WorkReply told = harness.works[harness.call];
  REQUIRE(told.has_lease());
  CHECK(told.lease().split() == first.lease().split());
  REQUIRE(told.lease().rejected_size() == 1);
  CHECK(told.lease().rejected(0) == 0);

  CoreHarness later(job, After(harness));
  const WorkReply again = later.Work(later.Join("worker:0"));
  REQUIRE(again.has_lease());
  CHECK(again.lease().split() == first.lease().split());
  CHECK(again.lease().rejected_size() == 1);
}

TEST_CASE("a coordinator that was stopped takes nobody for dead") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 1.0}; });
  const uint64_t cut_off = harness.Join("worker:0");
  harness.Feed(WorkerHoldEvent{++harness.call, cut_off});
  const CallId hold = harness.call;
  REQUIRE(harness.Work(cut_off).has_lease());
  const uint64_t waits = harness.Join("worker:1");
  REQUIRE(harness.Work(waits).has_lease());
  harness.Run(4000);
  harness.now += 60000;
  const bool tick_first = GENERATE(true, false);
  if (tick_first) harness.Feed(TickEvent());
  harness.Feed(WorkerHoldLostEvent{hold, cut_off});
  harness.Run(5000);  // 9000 ms of silence while the worker ran
  CHECK(harness.log.find("worker:0 left: its connection broke") != std::string::npos);
  CHECK(harness.log.find("worker:1 left") == std::string::npos);
  CHECK(harness.log.find("the worker died") == std::string::npos);
  harness.Run(2000);
  CHECK(harness.log.find("worker:1 left: it was silent for 10000 ms") != std::string::npos);
  CHECK(harness.log.find("on worker:1: the worker died") != std::string::npos);
}

// Breaks a worker's connection.
void Die(CoreHarness& harness, uint64_t session) {
  harness.Feed(WorkerHoldEvent{++harness.call, session});
  harness.Feed(WorkerHoldLostEvent{harness.call, session});
}

// Runs longer than any pause after a death, with signs of life from `sessions`.
void Live(CoreHarness& harness, std::vector<uint64_t> sessions, int64_t ms = 13000) {
  for (int64_t t = 0; t < ms; t += 1000) {
    for (const uint64_t session : sessions) harness.Work(session, {}, false);
    harness.Run(1000);
  }
}

TEST_CASE("a batch that a partition has is not rejected, and pushes under way are fenced first") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 1.0, 1}; });
  const uint64_t other = harness.Join("worker:1");
  REQUIRE(harness.Work(other).has_lease());
  const uint64_t session = harness.Join("worker:0");
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  Die(harness, session);
  harness.Run(600);
  CHECK(harness.core->generation() == 1);  // no other worker has been heard since the death
  // A push of the dead worker reaches a partition after the ledgers were read.
  OpenSplit& open = *harness.ps[0].mutable_partitions(0)->mutable_ledger()->add_open();
  open.set_split(reply.lease().split());
  open.set_next(1);
  Live(harness, {other}, 1000);
  CHECK(harness.core->generation() == 2);
  const uint64_t first = harness.Join("worker:1");
  REQUIRE(harness.Work(first).has_lease());
  const WorkReply again = harness.Work(harness.Join("worker:2"));
  REQUIRE(again.has_lease());
  CHECK(again.lease().split() == reply.lease().split());
  CHECK(again.lease().rejected_size() == 0);
  CHECK(harness.log.find("is not rejected: some partition has it") != std::string::npos);
}

TEST_CASE("a rejection is not decided by ledgers that were asked for before it was") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 1.0}; });
  const uint64_t session = harness.Join("worker:0");
  const WorkReply first = harness.Work(session);
  REQUIRE(first.has_lease());
  harness.hold_ledgers = true;
  const WorkReply second = harness.Work(session, {Unreadable(first.lease())});
  REQUIRE(second.has_lease());
  harness.Run(200);
  REQUIRE(harness.held_ledgers.size() == 2);
  // While the ledgers are on their way, the second lease's first batch reaches a partition and then
  // fails.
  OpenSplit& open = *harness.ps[0].mutable_partitions(0)->mutable_ledger()->add_open();
  open.set_split(second.lease().split());
  open.set_next(1);
  harness.Work(session, {Unreadable(second.lease())}, false);
  harness.ReleaseLedgers();
  harness.Run(200);
  const auto rejected = ParseJobState(harness.job_state, "job.state")->rejected;
  REQUIRE(rejected.size() == 1);
  CHECK(rejected[0].split == first.lease().split());
  CHECK(harness.log.find("is not rejected: some partition has it") != std::string::npos);
}

TEST_CASE("a batch that kills its workers is known by the ledgers, not by reports") {
  CoreHarness harness([](Job& job) {
    job.failures = {true, 1, 1.0, 3};
    job.split_batches = 2;
  });
  const uint64_t lives = harness.Join("worker:2");
  REQUIRE(harness.Work(lives).has_lease());
  uint64_t session = harness.Join("worker:0");
  WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  const uint64_t split = reply.lease().split();
  // No worker reports batch 0 as done. Batch 1 kills its workers.
  for (PsDescription& p : harness.ps) {
    for (PartitionDescription& partition : *p.mutable_partitions()) {
      OpenSplit& open = *partition.mutable_ledger()->add_open();
      open.set_split(split);
      open.set_next(1);
    }
  }
  for (int death = 1; death <= 3; ++death) {
    Die(harness, session);
    Live(harness, {lives});
    if (death == 3) break;
    session = harness.Join(death % 2 == 0 ? "worker:0" : "worker:1");
    reply = harness.Work(session);
    REQUIRE(reply.has_lease());
    CHECK(reply.lease().split() == split);
    CHECK(reply.lease().first_batch() == 1);
    CHECK(reply.lease().rejected_size() == 0);
  }
  const auto rejected = ParseJobState(harness.job_state, "job.state")->rejected;
  REQUIRE(rejected.size() == 1);
  CHECK(rejected[0].split == split);
  CHECK(rejected[0].batch == 1);
}

enum class Others { kAlone, kIdle, kAllDie };

TEST_CASE("a worker that dies says nothing of its batch unless others lived at other ones") {
  const Others others = GENERATE(Others::kAlone, Others::kIdle, Others::kAllDie);
  CAPTURE(static_cast<int>(others));
  const uint32_t split_batches = GENERATE(2u, 4u);  // with 4, an epoch is one split
  CoreHarness harness([&](Job& job) {
    job.failures = {true, 1, 0.0, 10};
    job.split_batches = split_batches;
  });
  for (int death = 1; death <= 25; ++death) {
    std::vector<uint64_t> sessions = {harness.Join("worker:0")};
    if (others != Others::kAlone) sessions.push_back(harness.Join("worker:1"));
    const WorkReply reply = harness.Work(sessions[0]);
    REQUIRE(reply.has_lease());
    CHECK(reply.lease().rejected_size() == 0);
    if (others == Others::kAllDie) harness.Work(sessions[1]);
    Die(harness, sessions[0]);
    if (others == Others::kAllDie) Die(harness, sessions[1]);
    Live(harness, others == Others::kIdle ? std::vector{sessions[1]} : std::vector<uint64_t>());
  }
  CHECK(harness.summary == "");
  CHECK(ParseJobState(harness.job_state, "job.state")->rejected.empty());
}

TEST_CASE("a batch whose worker died is another worker's first, after a pause that grows") {
  CoreHarness harness([](Job& job) { job.split_batches = 4; });
  uint64_t other = harness.Join("worker:1");
  uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  Die(harness, session);
  session = harness.Join("worker:0");
  CHECK_FALSE(harness.Work(session).has_lease());
  harness.Run(4 * kTickMs);
  REQUIRE(harness.Work(other).has_lease());
  Die(harness, other);
  harness.Run(4 * kTickMs);
  CHECK_FALSE(harness.works[harness.call].has_lease());
  harness.Run(1000);
  other = harness.Join("worker:1");
  REQUIRE(harness.Work(session).has_lease());
  // The last worker's deaths do not stop the job.
  Die(harness, other);
  Die(harness, session);
  harness.Run(1000);
  REQUIRE(harness.Work(harness.Join("worker:0")).has_lease());
}

TEST_CASE("failures of batches that are not there fail no job") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 0.0}; });
  const uint64_t session = harness.Join("worker:0");
  for (int i = 0; i < 5; ++i) {
    const WorkReply reply = harness.Work(session);
    REQUIRE(reply.has_lease());
    CHECK(reply.lease().first_batch() == 0);
    LeaseReport report = Unreadable(reply.lease());
    report.set_next(i == 0 ? reply.lease().end_batch() : ~uint32_t{0});
    if (i == 1) report.clear_problem();
    harness.Work(session, {report}, false);
    harness.Run(1500);
  }
  CHECK_FALSE(harness.exit.has_value());
  const std::string once = "worker:0 reports batch 2 of a split of 2 batches";
  CHECK(harness.log.find(once) != std::string::npos);
  CHECK(harness.log.find("worker:0 reports batch", harness.log.find(once) + 1) ==
        std::string::npos);
  // A batch within the split still fails the job.
  const WorkReply reply = harness.Work(session);
  harness.Work(session, {Unreadable(reply.lease())}, false);
  harness.Run(200);
  CHECK(JsonOf(harness.summary).at("status") == "failed");
}

TEST_CASE("who dies when the last split of a job with steps is entered died of no batch") {
  CoreHarness harness([](Job& job) {
    job.failures = {true, 1, 0.5, 1};
    job.steps = 3;
  });
  const uint64_t sessions[] = {harness.Join("worker:0"), harness.Join("worker:1")};
  REQUIRE(harness.Work(sessions[0]).has_lease());
  const Lease last = harness.Work(sessions[1]).lease();
  CHECK(last.end_batch() == 1);  // the data plan has one more batch
  for (PsDescription& p : harness.ps) {
    for (PartitionDescription& partition : *p.mutable_partitions()) {
      OpenSplit& open = *partition.mutable_ledger()->add_open();
      open.set_split(last.split());
      open.set_next(1);
    }
  }
  for (const uint64_t session : sessions) harness.Feed(WorkerHoldEvent{++harness.call, session});
  harness.Feed(WorkerHoldLostEvent{harness.call - 1, sessions[0]});
  harness.Feed(WorkerHoldLostEvent{harness.call, sessions[1]});
  harness.Run(1000);
  CHECK(harness.log.find("of split 0 of epoch 1 on worker:0: the worker died") !=
        std::string::npos);
  CHECK(harness.log.find("on worker:1: the worker died") == std::string::npos);
  CHECK(harness.summary == "");
}

TEST_CASE("a job that fails takes a checkpoint first where the ps are well") {
  const bool policy = GENERATE(true, false), well = GENERATE(true, false);
  CAPTURE(policy, well);
  CoreHarness harness([&](Job& job) { job.failures = {!policy, 1, 0.0, 1}; });
  const uint64_t session = harness.Join("worker:0");
  const WorkReply first = harness.Work(session);
  harness.Enter(first.lease());
  const WorkReply second = harness.Work(session, {CoreHarness::Done(first.lease())});
  REQUIRE(second.has_lease());
  if (!well) harness.round_status = absl::ResourceExhaustedError("the disk is full");
  harness.Work(session, {Unreadable(second.lease())});
  harness.Run(well ? 5000 : 40000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 1);
  CHECK(harness.committed.size() == (well ? 1 : 0));
  if (well) CHECK_FALSE(harness.committed[0].complete);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("status") == "failed");
  const auto reason = summary.at("reason").get<std::string>();
  CHECK(reason.find(policy ? "failures.policy" : "failures.rejected_max") != std::string::npos);
  CHECK((reason.find("with a larger one the job goes on") != std::string::npos) == !policy);
  CHECK(reason.find(well ? ", after a checkpoint" : "no checkpoint within timeouts.drain_ms: ") !=
        std::string::npos);
  CHECK((reason.find("the disk is full") != std::string::npos) == !well);
}

}  // namespace
}  // namespace paracord
