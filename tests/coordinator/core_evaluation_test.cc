// When the coordinator scores epochs, and what happens to scores when ledgers go back.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core/stall_report.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

WorkRequest Scored(uint64_t session, const EvaluationLease& lease, double loss) {
  WorkRequest request;
  request.set_session(session);
  EvaluationReport& report = *request.mutable_evaluation();
  report.set_lease(lease.id());
  report.set_examples(10);
  report.add_metrics()->add_values(10 * loss);
  report.mutable_metrics(0)->add_values(10);
  return request;
}

// Enters the splits [0, count) of all epochs into the ledgers of a ps.
void Finish(PsDescription& ps, uint64_t count) {
  for (PartitionDescription& partition : *ps.mutable_partitions()) {
    Ledger& ledger = *partition.mutable_ledger();
    ledger.Clear();
    ledger.add_finished()->set_last(count - 1);
    ledger.set_applied(2 * count);
  }
}

// Computes `splits` splits, and scores until the next split is granted or nothing is left. Returns
// the scored epochs.
std::vector<uint64_t> WorkOff(CoreHarness& harness, uint64_t session, uint64_t splits,
                              const std::function<double(uint64_t epoch)>& loss_of) {
  std::vector<uint64_t> epochs;
  std::vector<LeaseReport> reports;
  for (int waited = 0; waited < 3;) {
    const WorkReply reply = harness.Work(session, std::exchange(reports, {}));
    if (reply.has_lease()) {
      if (splits-- == 0) break;
      const uint64_t done = reply.lease().epoch() * 2 + reply.lease().split() + 1;
      for (PsDescription& ps : harness.ps) {
        if (ps.partitions(0).ledger().applied() < 2 * done) Finish(ps, done);
      }
      reports.push_back(CoreHarness::Done(reply.lease()));
    } else if (reply.has_evaluation()) {
      epochs.push_back(reply.evaluation().epoch());
      const double loss = loss_of(reply.evaluation().epoch());
      harness.Feed(WorkEvent{++harness.call, Scored(session, reply.evaluation(), loss)});
    } else {
      harness.Run(200);
      ++waited;
    }
  }
  return epochs;
}

std::vector<uint64_t> WorkOff(CoreHarness& harness, uint64_t session, uint64_t splits,
                              double loss) {
  return WorkOff(harness, session, splits, [loss](uint64_t) { return loss; });
}

TEST_CASE("a score is told when job.state has it, so that none is told that is not recorded") {
  CoreHarness harness([](Job& job) { job.test = job.train; });
  const uint64_t session = harness.Join("worker:0", 40, 10);
  const auto told = [&] {
    return nlohmann::json::parse(harness.Told().StatusJson()).at("evaluations").size();
  };
  for (int split = 0; split < 2; ++split) {
    const Lease lease = harness.Work(session).lease();
    harness.Enter(lease);
    harness.Work(session, {CoreHarness::Done(lease)}, false);
  }
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_evaluation());
  harness.hold_state = true;
  harness.Feed(WorkEvent{++harness.call, Scored(session, reply.evaluation(), 0.5)});
  CHECK(told() == 0);
  CHECK(harness.core->View().evaluations.told().empty());
  CHECK(EvaluationCharts(harness.core->View(), 0).empty());
  CHECK(harness.log.find("epoch 1/2: test") == std::string::npos);
  REQUIRE(ParseJobState(harness.job_state, "job.state")->evaluations.size() == 1);
  harness.Feed(JobStateWrittenEvent{absl::OkStatus()});
  CHECK(told() == 1);
  CHECK(EvaluationCharts(harness.core->View(), 0).size() == 1);
  CHECK(harness.log.find("epoch 1/2: test loss=0.5000") != std::string::npos);
}

TEST_CASE("a job whose epochs are scored waits for nobody, unless a ps or all workers are away") {
  CoreHarness harness([](Job& job) { job.test = job.train; });
  const uint64_t session = harness.Join("worker:0", 40, 10);
  harness.Join("worker:1", 40, 10);
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  for (int split = 0; split < 2; ++split) {
    const Lease lease = harness.Work(session).lease();
    harness.Enter(lease);
    harness.Work(session, {CoreHarness::Done(lease)}, false);
  }
  REQUIRE(harness.Work(session).has_evaluation());
  // Why a worker has nothing to do is not why the job would wait.
  CHECK(WaitReason(harness.core->View()) == "the rest of the evaluation is with other workers");
  REQUIRE(status().at("phase") == "evaluating");
  CHECK_FALSE(status().contains("waiting"));
  harness.hung.insert(1);
  harness.Run(3500);
  REQUIRE(status().at("phase") == "evaluating");
  CHECK(status().at("waiting").get<std::string>().starts_with("ps:1 at unix:/ps-1 has not answer"));
}

TEST_CASE("a replay scores no epoch that other partitions are past, and ends no job by it") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.epochs = 3;
    job.stop_when = StopWhen{.metric = "loss", .at_least = {}, .at_most = 0.5};
  });
  CHECK(WorkOff(harness, harness.Join("worker:0", 40, 10), 5, 0.8) == std::vector<uint64_t>{0, 1});
  // ps:1 is created anew, for lack of a checkpoint. ps:0 has all its batches.
  harness.ps[1] = PsDescription();
  harness.ps[1].set_protocol(kProtocol);
  harness.ps[1].set_boot_id("second");
  harness.Run(20000);
  const uint64_t session = harness.Join("worker:0", 40, 10);
  // Only the end of the replay is a state that all partitions have, so only its epoch is scored.
  CHECK(WorkOff(harness, session, 6, 0.4) == std::vector<uint64_t>{2});
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("ledger").at("applied_min") == 12);
  CHECK(summary.at("ledger").at("applied_max") == 12);
  CHECK(summary.at("evaluations").size() == 3);
  CHECK(summary.at("evaluations")[0].at("metrics").at("loss") == 0.8);
}

TEST_CASE("a decision to stop goes with the score that it was made by") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.stop_when = StopWhen{.metric = "loss", .at_least = {}, .at_most = 0.5};
  });
  harness.round_status = absl::ResourceExhaustedError("no space left");  // the last round waits
  CHECK(WorkOff(harness, harness.Join("worker:0", 40, 10), 2, 0.4) == std::vector<uint64_t>{0});
  REQUIRE(harness.core->phase() == Phase::kFinishing);
  harness.ps[1] = PsDescription();
  harness.ps[1].set_protocol(kProtocol);
  harness.ps[1].set_boot_id("second");
  harness.Run(20000);
  harness.round_status = absl::OkStatus();
  const uint64_t session = harness.Join("worker:0", 40, 10);
  const double loss = GENERATE(0.3, 0.8);
  CHECK(WorkOff(harness, session, 4, loss).front() == 0);
  harness.Run(6000);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("reason") ==
        (loss < 0.5 ? "stop_when: loss is 0.3 after epoch 1" : "all batches are applied"));
  CHECK(summary.at("ledger").at("applied_min") == (loss < 0.5 ? 4 : 8));
}

TEST_CASE("an epoch is not scored by who learns only in the middle of the next that it is due") {
  const auto job = [](uint64_t every_epochs) {
    return [every_epochs](Job& edited) {
      edited.test = edited.train;
      edited.evaluate_every_epochs = every_epochs;
    };
  };
  CoreHarness earlier(job(0));
  CHECK(WorkOff(earlier, earlier.Join("worker:0", 40, 10), 3, 0.8).empty());
  CoreHarness later(job(1), After(earlier), &earlier);
  CHECK(WorkOff(later, later.Join("worker:0", 40, 10), 1, 0.8) == std::vector<uint64_t>{1});
}

TEST_CASE("patience ends a job, and the checkpoint of its best evaluation is kept and named") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.epochs = 9;
    job.checkpoint.keep = 1;
    job.stop_when = StopWhen{.metric = "loss", .at_least = {}, .at_most = {}, .patience = 2};
    job.stop_when->restore_best = true;
  });
  const std::vector<double> losses = {5, 3, 4, 3, 0};
  const auto scored = WorkOff(harness, harness.Join("worker:0", 40, 10), 18,
                              [&](uint64_t epoch) { return losses.at(epoch); });
  CHECK(scored == std::vector<uint64_t>{0, 1, 2, 3});
  harness.Run(6000);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("status") == "done");
  CHECK(summary.at("reason") ==
        "stop_when: in 2 evaluations up to epoch 4 loss was not better than the 3 of epoch 2");
  CHECK(summary.at("best") ==
        nlohmann::json(
            {{"epoch", 2}, {"metric", "loss"}, {"value", 3.0}, {"checkpoint", "step-8-g1-r2"}}));
  // A checkpoint for each evaluation that was the best so far, and the final one.
  REQUIRE(harness.committed.size() == 3);
  CHECK(harness.committed[0].name.step == 4);
  CHECK(harness.committed[1].name.ToString() == "step-8-g1-r2");
  CHECK(harness.committed[2].complete);
  CHECK(harness.committed[2].summary.at("best").at("checkpoint") == "step-8-g1-r2");
  CHECK(harness.removed == std::vector<std::string>{"step-4-g1-r1"});
}

TEST_CASE("the final checkpoint is the best where nothing was better before") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.stop_when = StopWhen{.metric = "loss", .at_least = {}, .at_most = {}};
    job.stop_when->restore_best = true;
  });
  WorkOff(harness, harness.Join("worker:0", 40, 10), 4,
          [](uint64_t epoch) { return 5 - static_cast<double>(epoch); });
  harness.Run(6000);
  REQUIRE(harness.committed.size() == 2);
  CHECK(harness.committed[1].complete);
  CHECK(JsonOf(harness.summary).at("best").at("checkpoint") ==
        harness.committed[1].name.ToString());
}

TEST_CASE("training goes on where the best evaluation cannot have a checkpoint") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.stop_when = StopWhen{.metric = "loss", .at_least = {}, .at_most = {}, .patience = 5};
    job.stop_when->restore_best = true;
  });
  harness.round_status = absl::ResourceExhaustedError("no space left");
  CHECK(WorkOff(harness, harness.Join("worker:0", 40, 10), 4, 1) == std::vector<uint64_t>{0});
  harness.Run(20000);
  CHECK(harness.log.find("the best evaluation so far has no checkpoint: training goes on") !=
        std::string::npos);
  harness.round_status = absl::OkStatus();
  CHECK(WorkOff(harness, harness.Join("worker:0", 40, 10), 4, 2) == std::vector<uint64_t>{1});
  harness.Run(6000);
  const nlohmann::json best = JsonOf(harness.summary).at("best");
  CHECK(best.at("epoch") == 1);
  CHECK_FALSE(best.contains("checkpoint"));
}

TEST_CASE("a job without restore_best takes no checkpoint of its best evaluation") {
  CoreHarness harness([](Job& job) {
    job.test = job.train;
    job.stop_when = StopWhen{.metric = "loss", .at_least = {}, .at_most = {}, .patience = 5};
  });
  WorkOff(harness, harness.Join("worker:0", 40, 10), 4, 1);
  harness.Run(6000);
  CHECK(harness.committed.size() == 1);
  CHECK(JsonOf(harness.summary).at("best") ==
        nlohmann::json({{"epoch", 1}, {"metric", "loss"}, {"value", 1.0}}));
}

}  // namespace
}  // namespace paracord
