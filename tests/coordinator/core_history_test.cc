// The history of epochs: workers' reports to the core, and the history that users get.
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/json_text.h"
#include "coordinator/core_harness.h"
#include "coordinator/sync_job.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns a report of all batches of a lease, each with `loss`.
WorkRequest Trained(uint64_t session, const Lease& lease, double loss) {
  WorkRequest request;
  request.set_session(session);
  TrainedBatches& told = *request.add_trained();
  told.set_epoch(lease.epoch());
  told.set_split(lease.split());
  told.set_first_batch(lease.first_batch());
  for (uint32_t b = lease.first_batch(); b < lease.end_batch(); ++b) told.add_losses(loss);
  return request;
}

WorkReply Send(CoreHarness& harness, WorkRequest request) {
  harness.Feed(WorkEvent{++harness.call, std::move(request)});
  return harness.works[harness.call];
}

// Trains the next split of the epoch and reports it.
void TrainSplit(CoreHarness& harness, uint64_t session, double loss) {
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.Enter(reply.lease());
  WorkRequest request = Trained(session, reply.lease(), loss);
  *request.add_leases() = CoreHarness::Done(reply.lease());
  Send(harness, std::move(request));
}

json StatusOf(const CoreHarness& harness, uint64_t from = 0) {
  return JsonOf(harness.Told().StatusJson(from));
}

json SummaryNow(const CoreHarness& harness) {
  return JsonOf(harness.Told().SummaryText("done", ""));
}

TEST_CASE("status, summary and the manifest have the epochs that are done, with their losses") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  TrainSplit(harness, session, 4);
  CHECK(StatusOf(harness).at("history").empty());
  CHECK(StatusOf(harness).at("train").at("loss") == 4);  // of the epoch under way
  TrainSplit(harness, session, 2);
  const json first = StatusOf(harness).at("history");
  REQUIRE(first.size() == 1);
  CHECK(first[0].at("epoch") == 1);
  CHECK(first[0].at("batches") == 4);
  CHECK(first[0].at("examples") == 40);
  CHECK(first[0].at("train").at("loss") == 3);
  CHECK_FALSE(StatusOf(harness).contains("train"));  // nothing of the second epoch is known
  for (const double loss : {1, 1}) TrainSplit(harness, session, loss);
  harness.Run(1000);
  const json summary = JsonOf(harness.summary);
  REQUIRE(summary.at("status") == "done");
  REQUIRE(summary.at("history").size() == 2);
  CHECK(summary.at("history")[0].at("train").at("loss") == 3);
  CHECK(summary.at("history")[1].at("train").at("loss") == 1);
  REQUIRE_FALSE(harness.committed.empty());
  CHECK(harness.committed.back().summary.at("history") == summary.at("history"));
}

TEST_CASE("a status begins with the epoch that is asked for") {
  CoreHarness harness([](Job& job) { job.epochs = 3; });
  const uint64_t session = harness.Join("worker:0");
  for (int split = 0; split < 4; ++split) TrainSplit(harness, session, 1);
  CHECK(StatusOf(harness).at("history").size() == 2);
  REQUIRE(StatusOf(harness, 1).at("history").size() == 1);
  CHECK(StatusOf(harness, 1).at("history")[0].at("epoch") == 2);
  CHECK(StatusOf(harness, 2).at("history").empty());
  CHECK_FALSE(StatusOf(harness, kNoHistory).contains("history"));
}

TEST_CASE("the history has the learning rate that the ps tell, but for moving averages") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  for (PsDescription& ps : harness.ps) {
    for (PartitionDescription& partition : *ps.mutable_partitions()) {
      partition.set_learning_rate(0.125);
    }
  }
  for (int split = 0; split < 2; ++split) TrainSplit(harness, session, 1);
  CHECK(StatusOf(harness).at("history")[0].at("learning_rate") == 0.125);
}

TEST_CASE("a worker that tells of what cannot be is warned of once, and its numbers do not count") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const Lease lease = harness.Work(session).lease();
  WorkRequest lie = Trained(session, lease, 1);
  SECTION("a negative infinite loss") {
    lie.mutable_trained(0)->set_losses(0, -std::numeric_limits<double>::infinity());
  }
  SECTION("an epoch beyond the job") { lie.mutable_trained(0)->set_epoch(2); }
  SECTION("a split beyond the epoch") { lie.mutable_trained(0)->set_split(99); }
  SECTION("more examples than there are") {
    for (int i = 0; i < 2; ++i) lie.mutable_trained(0)->add_examples(1'000'000);
  }
  SECTION("more batches than it was given") {
    for (int i = 0; i < 100; ++i) *lie.add_trained() = lie.trained(0);
  }
  for (int i = 0; i < 3; ++i) Send(harness, lie);
  const size_t said = harness.log.find("worker:0: it tells of ");
  const size_t beyond = harness.log.find("worker:0: it says that it tells of ");
  CHECK((said != std::string::npos) != (beyond != std::string::npos));
  CHECK(harness.log.find("it tells of ", std::min(said, beyond) + 40) == std::string::npos);
  CHECK(harness.core->View().history.open_batches() == 0);
}

TEST_CASE("a coordinator that is killed leaves its history to the next, with the epoch under way") {
  CoreHarness earlier([](Job& job) { job.test = job.train; });
  const uint64_t session = earlier.Join("worker:0", 40, 10);
  for (const double loss : {4, 2}) TrainSplit(earlier, session, loss);
  const WorkReply reply = earlier.Work(session);
  REQUIRE(reply.has_evaluation());
  WorkRequest score;
  score.set_session(session);
  score.mutable_evaluation()->set_lease(reply.evaluation().id());
  score.mutable_evaluation()->set_examples(10);
  MetricState& state = *score.mutable_evaluation()->add_metrics();
  state.add_values(5);
  state.add_values(10);
  Send(earlier, score);
  earlier.Run(500);
  TrainSplit(earlier, session, 8);
  earlier.Run(500);  // job.state was written when the epoch was scored

  FoundInDir found = After(earlier);
  const bool checkpoint = GENERATE(false, true);
  if (checkpoint) {  // newer than job.state
    earlier.Feed(DrainEvent{"SIGTERM"});
    earlier.Run(2000);
    REQUIRE(earlier.committed.size() == 1);
    found.manifests = {earlier.committed.back()};
  }
  CoreHarness next([](Job& job) { job.test = job.train; }, found, &earlier);
  next.Run(1000);
  const uint64_t again = next.Join("worker:0", 40, 10);
  REQUIRE(again != 0);
  CHECK(StatusOf(next).at("epochs_found") == 1);
  CHECK(StatusOf(next).at("history")[0].at("train").at("loss") == 3);
  CHECK(StatusOf(next).at("history")[0].at("test").at("loss") == 0.5);
  TrainSplit(next, again, 1);
  const json entry = StatusOf(next).at("history").at(1);
  CHECK(entry.at("batches") == 4);
  // Only the reports after the newest written state are lost.
  CHECK(entry.value("untold", 0) == (checkpoint ? 0 : 2));
  CHECK(entry.at("train").at("loss") == (checkpoint ? 4.5 : 1.0));
}

TEST_CASE("a job that is given more steps goes on with the epoch at which it was ended") {
  CoreHarness earlier([](Job& job) { job.steps = 6; });
  const uint64_t session = earlier.Join("worker:0");
  for (const double loss : {4, 2, 8}) TrainSplit(earlier, session, loss);
  earlier.Run(2000);
  REQUIRE(JsonOf(earlier.summary).at("status") == "done");
  REQUIRE(JsonOf(earlier.summary).at("history").size() == 2);
  CHECK(JsonOf(earlier.summary).at("history")[1].at("batches") == 2);

  FoundInDir found = After(earlier);
  found.manifests = {earlier.committed.back()};
  CoreHarness next([](Job& job) { job.steps = 8; }, found, &earlier);
  next.Run(1000);
  CHECK(StatusOf(next).at("history").size() == 1);
  CHECK_FALSE(StatusOf(next).contains("again_to"));
  TrainSplit(next, next.Join("worker:0"), 2);
  next.Run(1000);
  const json history = StatusOf(next).at("history");
  REQUIRE(history.size() == 2);
  CHECK(history[1].at("batches") == 4);
  CHECK_FALSE(history[1].contains("untold"));
  CHECK(history[1].at("train").at("loss") == 5);
}

TEST_CASE("a worker tells only of splits that it was given, in this session or one before") {
  CoreHarness harness;
  const uint64_t liar = harness.Join("worker:1");
  uint64_t session = harness.Join("worker:0");
  const Lease lease = harness.Work(session).lease();
  for (int i = 0; i < 3; ++i) Send(harness, Trained(liar, lease, 1e6));
  CHECK(harness.core->View().history.open_batches() == 0);
  const std::string said = "worker:1: it tells of split 0 of epoch 1, which it was never given";
  const size_t at = harness.log.find(said);
  REQUIRE(at != std::string::npos);
  CHECK(harness.log.find(said, at + 1) == std::string::npos);
  session = harness.Join("worker:0");  // its connection broke before it could report
  Send(harness, Trained(session, lease, 4));
  CHECK(harness.core->View().history.open_batches() == 2);
  // A new process with the task of a worker has no leases to report.
  session = harness.Join("worker:0", 40, 0, "other life");
  Lease next = lease;
  next.set_split(1);
  Send(harness, Trained(session, next, 1e6));
  CHECK(harness.core->View().history.open_batches() == 2);
}

TEST_CASE("a worker tells the next coordinator of what the one before has given it") {
  CoreHarness earlier;
  const Lease lease = earlier.Work(earlier.Join("worker:0")).lease();
  earlier.Enter(lease);
  CoreHarness next({}, After(earlier), &earlier);
  next.Run(1000);
  JoinRequest request;
  request.set_task("worker:0");
  request.set_boot_id("worker:0-boot");
  request.set_protocol(kProtocol);
  *request.mutable_facts() = next.Facts();
  const bool came_before = GENERATE(true, false);
  if (came_before) request.set_run_id(next.core->View().record.run_id());
  next.Feed(JoinEvent{++next.call, request});
  REQUIRE(next.joins[next.call].has_session());
  Send(next, Trained(next.joins[next.call].session().id(), lease, 4));
  CHECK(next.core->View().history.open_batches() == (came_before ? 2 : 0));
}

TEST_CASE("who told of metrics of another kind than the others is named when the epoch closes") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0"), liar = harness.Join("worker:1");
  const auto with_loss = [](WorkRequest request, MetricKind kind) {
    MetricState& state = *request.mutable_trained(0)->add_metrics();
    state.set_kind(kind);
    for (const double value : {5, 10}) state.add_values(value);
    return request;
  };
  const Lease first = harness.Work(liar).lease(), second = harness.Work(session).lease();
  for (const Lease* lease : {&first, &second}) harness.Enter(*lease);
  WorkRequest lie = with_loss(Trained(liar, first, 1), METRIC_EXP);
  lie.mutable_trained(0)->mutable_losses()->RemoveLast();
  Send(harness, lie);
  WorkRequest honest = with_loss(Trained(session, second, 1), METRIC_MEAN);
  *honest.add_leases() = CoreHarness::Done(second);
  Send(harness, honest);
  WorkRequest done;
  done.set_session(liar);
  *done.add_leases() = CoreHarness::Done(first);
  Send(harness, done);
  harness.Run(500);
  REQUIRE(StatusOf(harness).at("history").size() == 1);
  CHECK(StatusOf(harness).at("history")[0].at("train").at("loss") == 0.5);
  CHECK(harness.log.find("worker:1: it tells of metrics of another kind") != std::string::npos);
  CHECK(harness.log.find("worker:0: it tells") == std::string::npos);
}

TEST_CASE("a damaged history is said once, and the job goes on without") {
  CoreHarness earlier;
  const uint64_t session = earlier.Join("worker:0");
  for (int split = 0; split < 2; ++split) TrainSplit(earlier, session, 1);
  FoundInDir found = After(earlier);
  found.job_state->history_open = "nonsense";
  CoreHarness next({}, found, &earlier);
  next.Run(500);
  REQUIRE(next.Join("worker:0") != 0);
  CHECK(next.log.find("the history of epochs is damaged") != std::string::npos);
  CHECK(StatusOf(next).at("history").empty());
}

TEST_CASE("rounds that a rollback takes back count once, and the status says they come again") {
  SyncJob job(kOftenCut);
  uint64_t session = job.Join("worker:0");
  const auto tell = [&](uint32_t first, uint32_t rounds, double loss) {
    for (const uint64_t lane : {0, 1}) {
      Lease lease;
      lease.set_split(lane);
      lease.set_first_batch(first);
      lease.set_end_batch(first + rounds);
      Send(job, Trained(session, lease, loss));
    }
  };
  REQUIRE(job.Work(session).has_lease());
  job.TakeCut(session, 1);
  tell(0, 3, 2);
  job.SetStates(3);
  CHECK_FALSE(StatusOf(job).contains("again_to"));
  job.Kill(1);
  session = job.Join("worker:0");
  REQUIRE(job.Work(session).has_lease());
  CHECK(StatusOf(job).at("again_to") == 6);
  CHECK(job.core->View().history.open_batches() == 6);
  tell(1, 3, 5);  // two of these rounds are already known
  CHECK(job.core->View().history.open_batches() == 8);
  job.SetStates(kSyncRounds);
  std::vector<LeaseReport> reports;  // until all lanes are done and the ledgers are read
  for (int i = 0; i < 10 && StatusOf(job).at("history").empty(); ++i) {
    const WorkReply reply = job.Work(session, std::exchange(reports, {}));
    if (reply.has_lease()) reports.push_back(CoreHarness::Done(reply.lease()));
    for (const Lease& lane : reply.lanes()) reports.push_back(CoreHarness::Done(lane));
    job.Run(200);
  }
  const json history = StatusOf(job).at("history");
  REQUIRE(history.size() == 1);
  CHECK(history[0].at("batches") == 8);
  CHECK_FALSE(history[0].contains("untold"));
  CHECK(history[0].at("train").at("loss") == (6 * 2 + 2 * 5) / 8.0);
}

TEST_CASE("records that workers left out stand in status and summary") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  CHECK_FALSE(StatusOf(harness).contains("bad_records"));
  WorkRequest request = Trained(session, harness.Work(session).lease(), 1);
  request.mutable_trained(0)->add_examples(8);
  request.mutable_trained(0)->add_examples(10);
  request.add_bad_records("/d.csv row 2: has 1 fields instead of 2\nforged line");
  request.add_bad_records("/d.csv row 7: has 1 fields instead of 2");
  Send(harness, request);
  for (const json& said : {StatusOf(harness), SummaryNow(harness)}) {
    const json& bad = said.at("bad_records");
    CHECK(bad.at("records") == 2);
    CHECK(bad.at("left_out") == 2);
    REQUIRE(bad.at("first").size() == 2);
    CHECK(bad.at("first")[0] == "/d.csv row 2: has 1 fields instead of 2; forged line");
  }
}

}  // namespace
}  // namespace paracord
