// A worker that lies affects its own batches only.
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "config/proofs.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

nlohmann::json SummaryOf(CoreHarness& harness) {
  return nlohmann::json::parse(harness.Told().SummaryText("done", ""));
}

WorkReply Say(CoreHarness& harness, WorkRequest request) {
  harness.Feed(WorkEvent{++harness.call, std::move(request)});
  return harness.works[harness.call];
}

TEST_CASE("numbers of more work than a worker was given are not counted") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  WorkRequest lie;
  lie.set_session(session);
  SECTION("batches") { lie.set_computed(1'000'000'000'000'000'000); }
  SECTION("all batches that can be counted") { lie.set_computed(~uint64_t{0}); }
  SECTION("samples") { lie.set_samples(4'000'000'000'000'000'000); }
  SECTION("batches that came twice") { lie.set_duplicates(1'000'000); }
  SECTION("staleness") { lie.set_staleness_sum(1'000'000); }
  SECTION("a loss that is no number") {
    lie.set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  }
  SECTION("an infinite loss") { lie.set_loss_sum(std::numeric_limits<double>::infinity()); }
  SECTION("a time before the beginning") { lie.set_compute_seconds(-1); }
  SECTION("a time that is no number") {
    lie.set_waited_seconds(std::numeric_limits<double>::quiet_NaN());
  }
  SECTION("an endless time") { lie.set_waited_seconds(1e300); }
  SECTION("a loss that no float32 has") { lie.set_loss_sum(-1e300); }
  for (int i = 0; i < 3; ++i) Say(harness, lie);
  const nlohmann::json summary = SummaryOf(harness);
  CHECK(summary.at("computed") == 0);
  CHECK(summary.at("duplicates") == 0);
  CHECK_FALSE(summary.at("metrics").contains("train"));
  const nlohmann::json status = nlohmann::json::parse(harness.Told().StatusJson());
  CHECK(status.at("loss").is_null());
  CHECK(status.at("samples_per_second") == 0);
  CHECK(status.at("workers")[0].at("computed") == 0);
  const size_t said = harness.log.find("worker:0: it says that");
  REQUIRE(said != std::string::npos);
  CHECK(harness.log.find("it says that", said + 20) == std::string::npos);  // once
}

TEST_CASE("nobody has waited for longer than since the report before") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  harness.Run(1000);
  WorkRequest lie;
  lie.set_session(session);
  for (uint64_t report = 1; report <= 3; ++report) {
    lie.set_report(report);
    lie.set_waited_seconds(500000);
    Say(harness, lie);
    harness.Run(100);
  }
  const WorkerSession& of = harness.core->View().sessions.all().at(session);
  CHECK(of.work.waited_seconds >= 1);
  CHECK(of.work.waited_seconds < 2);
}

TEST_CASE("a client that a ps has cut is an event of the job, once, and forges no line") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const auto look = [&] {
    for (int i = 0; i < 3; ++i) {  // the coordinator asks the ps again
      harness.Work(session);
      harness.Run(1000);
    }
  };
  look();
  CHECK(harness.log.find("cuts") == std::string::npos);
  const std::string cut = "cuts 10.0.0.9:4411 (spiffe://lab/monitor, serial 1A): it resets";
  harness.ps[1].set_refused_peer(cut + "\nforged line");
  look();
  const size_t said = harness.log.find("ps:1: " + cut);
  REQUIRE(said != std::string::npos);
  CHECK(harness.log.find(cut, said + 10) == std::string::npos);
  CHECK(harness.log.find("\nforged") == std::string::npos);
  harness.ps[1].set_refused_peer("cuts 10.0.0.9:4412: it resets");
  look();
  CHECK(harness.log.find("ps:1: cuts 10.0.0.9:4412") != std::string::npos);
}

TEST_CASE("programs that were lost are counted once for each report, and the status says why") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  WorkRequest report;
  report.set_session(session);
  report.set_report(1);
  report.set_program_losses(2);
  report.set_program_lost("the program was lost: it ended with exit code 7\nforged line");
  for (int i = 0; i < 3; ++i) Say(harness, report);
  report.set_report(2);
  report.set_program_losses(~uint64_t{0});
  Say(harness, report);
  const nlohmann::json status = nlohmann::json::parse(harness.Told().StatusJson());
  CHECK(status.at("program_losses") == 2 + 16);  // at most this many are believed in one report
  CHECK(SummaryOf(harness).at("program_losses") == 2 + 16);
  const std::string why = status.at("last_failure");
  CHECK(why.starts_with("worker:0: the program was lost: it ended with exit code 7"));
  CHECK(why.find('\n') == std::string::npos);
}

TEST_CASE("a worker cannot add up more than it was given, however often it reports") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const Lease lease = harness.Work(session).lease();
  WorkRequest one;
  one.set_session(session);
  one.set_computed(1);
  one.set_samples(10);
  one.set_loss_sum(0.5);
  for (int i = 0; i < 1000; ++i) Say(harness, one);
  // The allowance covers the lease, and leases of an earlier session.
  const uint64_t most = lease.end_batch() + kLeasesOfSessionMax * 2;
  CHECK(SummaryOf(harness).at("computed") == most);
  CHECK(SummaryOf(harness).at("metrics").at("train").at("loss") == 0.5);
}

TEST_CASE("only the session that has a piece of an evaluation scores it") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.failures.per_batch = 1;
  });
  const uint64_t session = harness.Join("worker:0", 40, 10);
  const uint64_t liar = harness.Join("worker:1", 40, 10);
  for (int split = 0; split < 2; ++split) {
    const Lease lease = harness.Work(session).lease();
    harness.Enter(lease);
    harness.Work(session, {CoreHarness::Done(lease)}, false);
  }
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_evaluation());
  WorkRequest score;
  score.set_session(liar);
  EvaluationReport& report = *score.mutable_evaluation();
  report.set_lease(reply.evaluation().id());
  report.set_examples(10);
  report.add_metrics()->add_values(-8e27);
  report.mutable_metrics(0)->add_values(10);
  const bool unreadable = GENERATE(false, true);
  if (unreadable) report.set_problem(PROBLEM_DATA);
  Say(harness, score);
  CHECK(harness.Told().StatusJson().find("e27") == std::string::npos);
  report.set_problem(PROBLEM_NONE);
  report.mutable_metrics(0)->set_values(0, 5);
  score.set_session(session);
  Say(harness, score);
  const nlohmann::json status = nlohmann::json::parse(harness.Told().StatusJson());
  REQUIRE(status.at("evaluations").size() == 1);
  CHECK(status.at("evaluations")[0].at("metrics").at("loss") == 0.5);
  CHECK_FALSE(harness.core->View().end.planned());  // the job goes on
}

TEST_CASE("a session that hoards the pieces of an evaluation leaves some to others") {
  constexpr uint64_t kTestRecords = 10 * 8 * 100;  // 100 pieces
  CoreHarness harness([](Job& job) { job.test = job.train; });
  const uint64_t session = harness.Join("worker:0", 40, kTestRecords);
  const uint64_t other = harness.Join("worker:1", 40, kTestRecords);
  for (int split = 0; split < 2; ++split) {
    const Lease lease = harness.Work(session).lease();
    harness.Enter(lease);
    harness.Work(session, {CoreHarness::Done(lease)}, false);
  }
  WorkRequest request;
  request.set_session(session);
  request.set_want_task(true);
  for (uint64_t i = 0; i < kLeasesOfSessionMax; ++i) {
    const WorkReply reply = Say(harness, request);
    REQUIRE(reply.has_evaluation());
    request.add_holds(reply.evaluation().id());
  }
  CHECK_FALSE(Say(harness, request).has_evaluation());
  CHECK(harness.Work(other).has_evaluation());
}

TEST_CASE("a lease has the proof that a batch is rejected, and the ps know its key") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 1.0}; });
  const uint64_t session = harness.Join("worker:0");
  CHECK(harness.proof_key == "key");
  const Lease lease = harness.Work(session).lease();
  CHECK(lease.rejections_size() == 0);
  CHECK(lease.proof() ==
        LeaseProofOf("key", harness.core->generation(), lease.epoch(), lease.split()));
  LeaseReport failed = CoreHarness::Done(lease);
  failed.set_next(0);
  failed.set_problem(PROBLEM_DATA);
  harness.Work(session, {failed}, false);
  Lease again;
  for (int i = 0; i < 10 && again.rejected_size() == 0; ++i) {
    harness.Run(200);
    again = harness.Work(harness.Join("worker:0")).lease();
  }
  REQUIRE(again.rejected_size() == 1);
  REQUIRE(again.rejections_size() == 1);
  BatchId batch;
  batch.set_epoch(again.epoch());
  batch.set_split(again.split());
  batch.set_batch(again.rejected(0));
  CHECK(IsRejection(again.rejections(0), "key", batch));
}

JoinReply JoinFinding(CoreHarness& harness, const std::string& task, uint64_t records) {
  JoinRequest request;
  request.set_task(task);
  request.set_boot_id(task);
  request.set_protocol(kProtocol);
  *request.mutable_facts() = harness.Facts(records);
  harness.Feed(JoinEvent{++harness.call, request});
  return harness.joins[harness.call];
}

TEST_CASE("what the first worker invents is replaced by what two others find") {
  // This job believes the first worker's facts.
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 1.0}; });
  const uint64_t liar = harness.Join("worker:0", 7);
  REQUIRE(liar != 0);
  LeaseReport unreadable;
  unreadable.set_lease(harness.Work(liar).lease().id());
  unreadable.set_ended(true);
  unreadable.set_problem(PROBLEM_DATA);
  unreadable.set_message("a bad record");
  harness.Work(liar, {unreadable}, false);
  harness.Run(1000);
  REQUIRE(ParseJobState(harness.job_state, "job.state")->rejected.size() == 1);
  const std::string run = harness.core->View().record.run_id();
  CHECK(JoinFinding(harness, "worker:1", 40).has_wait());
  CHECK(harness.Told().StatusJson().find("it finds 40 training records") != std::string::npos);
  // A worker counts once, however often it joins.
  CHECK(JoinFinding(harness, "worker:1", 40).has_wait());
  CHECK(harness.core->View().record.plan().records() == 7);
  JoinFinding(harness, "worker:2", 40);
  harness.Run(1000);
  CHECK(harness.core->View().record.plan().records() == 40);
  CHECK(harness.core->View().record.run_id() != run);
  CHECK(harness.Work(liar).rejoin() == "no such session");
  const JoinReply joined = JoinFinding(harness, "worker:1", 40);
  REQUIRE(joined.has_session());
  CHECK(joined.session().plan().records() == 40);
  CHECK(joined.session().run_id() == harness.ps[0].run_id());
  CHECK(JoinFinding(harness, "worker:0", 7).leave().exit_code() == 2);
  CHECK(ParseJobState(harness.job_state, "job.state")->plan.records() == 40);
  CHECK(ParseJobState(harness.job_state, "job.state")->rejected.empty());
  const uint64_t session = harness.Join("worker:2");
  TrainAll(harness, session);
  CHECK(harness.exit->code == 0);
}

TEST_CASE("a coordinator that comes back does not go by one worker's word for ever") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0", 7) != 0);
  CoreHarness later({}, After(harness), &harness);
  later.Run(1000);
  CHECK(JoinFinding(later, "worker:1", 40).has_wait());
  JoinFinding(later, "worker:2", 40);
  later.Run(1000);
  CHECK(JoinFinding(later, "worker:1", 40).has_session());
}

TEST_CASE("a coordinator that dies when the job has begun anew leaves no ps to strangers") {
  const bool ends = GENERATE(false, true);
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0", 7) != 0);
  harness.Run(1000);
  const std::string before = harness.ps[0].run_id();
  harness.hold_claim = true;  // the coordinator dies in the next claim
  JoinFinding(harness, "worker:1", 40);
  JoinFinding(harness, "worker:2", 40);
  const std::string run = ParseJobState(harness.job_state, "job.state")->run_id;
  REQUIRE(run != before);
  REQUIRE(harness.ps[1].run_id() == before);
  CoreHarness later([](Job& job) { job.timeouts.start_s = 1; }, After(harness), &harness,
                    /*away=*/{0, 1});
  if (ends) {
    later.Run(1200);
    REQUIRE(later.core->phase() == Phase::kEnded);
    later.dead.clear();
    later.Run(1500);
    CHECK(later.finished == std::set<uint32_t>{0, 1});
    return;
  }
  later.dead.clear();
  later.Run(5000);
  CHECK(later.log.find("not this job's") == std::string::npos);
  CHECK(later.ps[0].run_id() == run);
  CHECK(later.ps[1].run_id() == run);
  const uint64_t session = later.Join("worker:1", 40);
  REQUIRE(session != 0);
  TrainAll(later, session);
  CHECK(later.exit->code == 0);
}

TEST_CASE("facts stay as soon as something is trained, or a second worker finds them") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const bool trained = GENERATE(false, true);
  if (trained) {
    harness.Enter(harness.Work(session).lease());
    harness.Run(2000);
  } else {
    REQUIRE(harness.Join("worker:1") != 0);
  }
  CHECK(JoinFinding(harness, "worker:2", 41).leave().exit_code() == 2);
  CHECK(JoinFinding(harness, "worker:3", 41).leave().exit_code() == 2);
  CHECK(harness.core->View().record.plan().records() == 40);
}

}  // namespace
}  // namespace paracord
