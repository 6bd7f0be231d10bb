#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("a job goes from nothing to done, and everybody is told") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(session != 0);
  CHECK(harness.loads.size() == 2);
  TrainAll(harness, session);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
  REQUIRE(harness.committed.size() == 1);
  CHECK(harness.committed[0].complete);
  CHECK(harness.finished.size() == 2);
  CHECK(JsonOf(harness.summary).at("status") == "done");
}

TEST_CASE("the log says early for whom the coordinator waits, and then now and again") {
  const std::set<uint32_t> away = GENERATE(std::set<uint32_t>{}, std::set<uint32_t>{1});
  CoreHarness harness({}, {}, nullptr, away);
  harness.Run(1900);
  CHECK(harness.log.find("waits") == std::string::npos);
  harness.Run(200);
  const std::string said = away.empty() ? "waits: missing a worker (none has joined)\n"
                                        : "waits: missing ps:1 at unix:/ps-1 (no connection), a "
                                          "worker (none has joined)\n";
  CHECK(harness.log.find(said) != std::string::npos);
  harness.log = "";
  harness.Run(29000);
  CHECK(harness.log.find("waits") == std::string::npos);
  harness.Run(2000);
  CHECK(harness.log.find(said) != std::string::npos);
  harness.log = "";
  if (!away.empty()) return;
  REQUIRE(harness.Join("worker:0") != 0);
  harness.Run(60000);
  CHECK(harness.log.find("waits") == std::string::npos);
}

TEST_CASE("the rate of a job whose coordinator was killed is that of the time it remembers") {
  CoreHarness first;
  const uint64_t session = first.Join("worker:0");
  const WorkReply work = first.Work(session);
  first.Run(10000);
  first.Enter(work.lease());  // 20 samples, unknown to job.state
  CoreHarness second({}, After(first), &first);
  CHECK(second.loads.empty());
  const uint64_t again = second.Join("worker:0");
  const int64_t begun = second.now;
  second.Run(2000);
  TrainAll(second, again);
  REQUIRE(second.exit.has_value());
  const auto summary = JsonOf(second.summary);
  CHECK(summary.at("samples") == 80);
  CHECK(summary.at("samples_per_second").get<double>() <
        75000.0 / static_cast<double>(second.summary_ms - begun));
}

TEST_CASE("an epoch does not close on reports that the ledgers do not bear out") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const WorkReply first = harness.Work(session);
  REQUIRE(first.has_lease());
  const WorkReply second = harness.Work(session, {CoreHarness::Done(first.lease())});
  REQUIRE(second.has_lease());
  // The worker reports everything done, but no partition has a batch.
  const WorkReply again = harness.Work(session, {CoreHarness::Done(second.lease())});
  harness.Run(500);
  const Lease& lease = again.has_lease() ? again.lease() : harness.works[harness.call].lease();
  CHECK(lease.epoch() == 0);
  CHECK(lease.split() == 0);
  CHECK(lease.first_batch() == 0);
}

TEST_CASE("the start-up deadline names the tasks that are missing") {
  CoreHarness missing([](Job& job) { job.timeouts.start_s = 5; });
  missing.Run(8000);
  REQUIRE(missing.exit.has_value());
  CHECK(missing.exit->code == 202);
  CHECK(missing.exit->reason.find("a worker") != std::string::npos);
  CHECK(missing.exit->reason.find("timeouts.start_s") != std::string::npos);
}

TEST_CASE("a drained coordinator stays until its summary is written, though not for ever") {
  CoreHarness harness;
  harness.Join("worker:0");
  harness.hold_summary = true;
  harness.Feed(DrainEvent{});
  harness.Run(1000);
  CHECK_FALSE(harness.summary.empty());
  CHECK_FALSE(harness.exit.has_value());
  SECTION("written") { harness.Feed(SummaryWrittenEvent{absl::OkStatus()}); }
  SECTION("never") { harness.Run(3000); }
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == static_cast<int>(ExitCode::kDrained));
}

TEST_CASE("a job that fails at once tells every ps that can be reached, adopted or not") {
  CoreHarness cluster;
  cluster.dead = {0, 1};
  cluster.Run(300);
  JoinRequest request;
  request.set_task("worker:1");
  request.set_protocol(kProtocol);
  request.set_error("/f.npy: no such file");
  cluster.Feed(JoinEvent{3, request});
  request.set_task("worker:0");
  cluster.ps[1].set_run_id(GENERATE("", "another run"));
  const bool ours = cluster.ps[1].run_id().empty();
  cluster.Feed(JoinEvent{1, request});
  CHECK(cluster.finished.empty());
  cluster.dead = {};
  cluster.Run(300);
  CHECK(cluster.finished.contains(0));
  CHECK(cluster.finished.contains(1) == ours);
  CHECK_FALSE(cluster.exit.has_value());  // a worker that starts now still hears of the end
  request.set_task("worker:1");
  request.clear_error();
  cluster.Feed(JoinEvent{2, request});
  REQUIRE(cluster.joins.contains(2));
  CHECK(cluster.joins.at(2).leave().exit_code() == static_cast<int>(ExitCode::kConfiguration));
  cluster.Run(2500);
  REQUIRE(cluster.exit.has_value());
  CHECK(cluster.exit->code == static_cast<int>(ExitCode::kConfiguration));
}

TEST_CASE("the coordinator that loses the claim leaves without telling anybody to stop") {
  CoreHarness harness;
  harness.Join("worker:0");
  harness.lose_claim = true;
  harness.ps[0].set_boot_id("boot-new");
  harness.ps[0].clear_run_id();
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("killed")});
  harness.Run(3000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 201);
  CHECK(harness.finished.empty());
}

TEST_CASE("a ps that comes back empty is loaded in a new generation; the other keeps its state") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.core->generation() == 1);
  harness.ps[0].set_boot_id("boot-new");
  harness.ps[0].clear_run_id();
  harness.ps[0].clear_partitions();
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("killed")});
  harness.Run(500);
  CHECK(harness.core->generation() == 2);
  REQUIRE(harness.loads.size() == 3);
  CHECK(harness.loads[2].fence().boot_id() == "boot-new");
  CHECK(harness.loads[2].fence().generation() == 2);
  CHECK(harness.Work(session).has_rejoin());
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("a ps that was only out of reach is taken back in the same generation") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("cut")});
  harness.Run(500);
  CHECK(harness.core->generation() == 1);
  CHECK(harness.loads.size() == 2);
  CHECK(harness.Work(session).has_lease());
}

TEST_CASE("while a ps is away nobody is given work, and the reason is told") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  harness.dead = {1};
  harness.Feed(PsAnswerEvent{1, harness.hold_tags[1], absl::UnavailableError("killed")});
  harness.Work(session);
  harness.Run(1500);
  const WorkReply& reply = harness.works[harness.call];
  REQUIRE(reply.has_wait());
  CHECK(reply.wait().find("ps:1") != std::string::npos);
  CHECK(harness.Told().StatusJson().find("parked") != std::string::npos);
}

TEST_CASE("status tells what slow readers pin, and who waits for them") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const auto status = [&] {
    for (int i = 0; i < 5; ++i) {  // the coordinator asks the ps again
      harness.Work(session);
      harness.Run(1000);
    }
    return nlohmann::json::parse(harness.Told().StatusJson());
  };
  CHECK_FALSE(status().contains("waiting"));
  harness.ps[1].set_pinned_bytes(uint64_t{300} << 20);
  CHECK(status().at("ps").at(1).at("pinned_bytes") == uint64_t{300} << 20);
  CHECK_FALSE(status().contains("waiting"));
  harness.ps[1].set_waiting_exchanges(2);
  const auto waiting = status();
  CHECK(waiting.at("ps").at(1).at("waiting_exchanges") == 2);
  CHECK(waiting.at("ps").at(0).at("waiting_exchanges") == 0);
  CHECK(waiting.at("waiting") ==
        "2 exchanges wait for slow readers of ps:1, which pin 300 MiB (its --pinned-mb)");
  harness.ps[1].clear_waiting_exchanges();
  CHECK_FALSE(status().contains("waiting"));
}

TEST_CASE("loss and rate are those of the newest seconds, and the rate of a halt falls") {
  // A report may count this many batches.
  CoreHarness harness([](Job& job) { job.split_batches = 10; });
  const uint64_t session = harness.Join("worker:0");
  const auto work = [&](double loss) {
    WorkRequest request;
    request.set_session(session);
    request.set_computed(1);
    request.set_samples(10);
    request.set_loss_sum(loss);
    request.set_staleness_sum(3);
    harness.Feed(WorkEvent{++harness.call, request});
    harness.Run(100);
  };
  const auto values = [&] {
    std::map<std::string, double> chart;
    for (const auto& [name, value] : harness.Told().TrainingChart().values) {
      chart[name] = value;
    }
    const auto status = JsonOf(harness.Told().StatusJson());
    CHECK(status.at("loss") == chart.at("train/loss"));
    CHECK(status.at("samples_per_second") == chart.at("cluster/samples_per_second"));
    return chart;
  };
  for (int i = 0; i < 50; ++i) work(9);
  CHECK(values().at("train/loss") == Approx(9));
  CHECK(values().at("cluster/samples_per_second") == Approx(100).epsilon(0.05));
  CHECK(values().at("cluster/staleness") == Approx(3));
  CHECK(values().at("cluster/workers") == 1);
  for (int i = 0; i < 60; ++i) work(1);
  CHECK(values().at("train/loss") == Approx(1));
  harness.Run(20000);
  CHECK(values().at("train/loss") == Approx(1));
  CHECK(values().at("cluster/samples_per_second") < 20);
}

TEST_CASE("a worker that sees other files is refused by name") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  REQUIRE(harness.Join("worker:2") != 0);  // two workers agree
  CHECK(harness.Join("worker:1", /*records=*/41) == 0);
  CHECK(harness.joins[harness.call].leave().reason() ==
        "worker:1 is refused: it finds 41 training records, the job has 40: what data.train and "
        "data.test name is not what the job was begun with; put that back, or begin anew in "
        "another --dir");
  CHECK(harness.joins[harness.call].leave().exit_code() == 2);
}

TEST_CASE("a worker that cannot take part ends no job that another has begun") {
  CoreHarness harness;
  harness.hold_state = true;
  harness.Join("worker:0");
  REQUIRE_FALSE(harness.job_state.empty());
  JoinRequest request;
  request.set_task("worker:1");
  request.set_protocol(kProtocol);
  request.set_error("/f.npy: no such file");
  harness.Feed(JoinEvent{++harness.call, request});
  CHECK(harness.joins[harness.call].leave().exit_code() == 2);
  harness.Feed(JobStateWrittenEvent{absl::OkStatus()});
  harness.Run(500);
  CHECK_FALSE(harness.exit.has_value());
  CHECK(harness.Join("worker:0") != 0);
}

TEST_CASE("SIGTERM takes a checkpoint and leaves the ps alone") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  harness.Enter(harness.Work(session).lease());  // after the last look at the ps
  harness.Feed(DrainEvent());
  harness.Run(200);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 143);
  REQUIRE(harness.committed.size() == 1);
  CHECK_FALSE(harness.committed[0].complete);
  CHECK(harness.finished.empty());
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("checkpoints").at("last_step") == 2);
  CHECK(summary.at("ledger").at("applied_min") == 2);
  CHECK(summary.at("samples") == 20);
}

TEST_CASE("committed checkpoints that are gone end the job instead of beginning it anew") {
  CoreHarness earlier([](Job& job) { job.checkpoint.every_seconds = 1; });
  earlier.Join("worker:0");
  earlier.Run(1500);
  REQUIRE(earlier.committed.size() == 1);
  FoundInDir found = After(earlier);
  found.job_state->evaluations.push_back({0, {{"accuracy", 0.875}}});
  CoreHarness later({}, std::move(found));
  later.Join("worker:0");
  later.Run(3000);
  CHECK(later.loads.empty());
  REQUIRE(later.exit.has_value());
  CHECK(later.exit->code == static_cast<int>(ExitCode::kNoCheckpoint));
  CHECK(later.exit->reason.find("/job/checkpoints holds none") != std::string::npos);
  CHECK(later.exit->reason.find("job.state-*") != std::string::npos);
  CHECK(later.summary.find("0.875") == std::string::npos);  // the score belongs to a lost state
}

TEST_CASE("the rate at an epoch's end is not that of its last moment") {
  CoreHarness harness([](Job& job) { job.test = job.train; });
  const uint64_t session = harness.Join("worker:0", 40, 10);
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  const auto work = [&](uint64_t batches, const Lease* done) {
    WorkRequest request;
    request.set_session(session);
    request.set_want_task(batches != 1);
    request.set_computed(batches);
    request.set_samples(10 * batches);
    if (done != nullptr) *request.add_leases() = CoreHarness::Done(*done);
    harness.Feed(WorkEvent{++harness.call, request});
    return harness.works[harness.call];
  };
  Lease lease = work(0, nullptr).lease();
  for (int i = 0; i < 21; ++i) {
    work(1, nullptr);
    harness.Run(100);
  }
  CHECK(status().at("samples_per_second") == Approx(100).epsilon(0.1));
  harness.Enter(lease);
  lease = work(0, &lease).lease();
  harness.Enter(lease);
  work(20, &lease);  // the rest of the reports
  harness.Run(200);
  CHECK(status().at("phase") == "evaluating");
  CHECK(status().at("samples_per_second") < 250);
}

TEST_CASE("a job without a checkpoint yet is created again") {
  CoreHarness earlier;
  REQUIRE(earlier.Join("worker:0") != 0);
  CoreHarness later({}, After(earlier));
  CHECK(later.Join("worker:0") != 0);
  CHECK(later.loads.size() == 2);
}

TEST_CASE("a late commit does not tell the next life of a drained ps to leave") {
  CoreHarness harness;
  harness.Join("worker:0");
  harness.hold_commit = true;
  PsHoldReply draining;
  draining.set_draining(true);
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], PsReply(draining)});
  harness.Run(200);
  REQUIRE(harness.committed.size() == 1);
  harness.ps[0].set_boot_id("boot-new");
  harness.ps[0].clear_run_id();
  harness.ps[0].clear_partitions();
  harness.silent_load = true;
  harness.Run(5000);
  REQUIRE(harness.core->generation() == 2);
  REQUIRE(harness.loads.size() == 3);
  harness.Feed(RoundCommittedEvent{harness.committed[0].name.round, absl::OkStatus()});
  harness.Run(200);
  CHECK(harness.finished.empty());
}

TEST_CASE("old checkpoints go, the newest healthy one never does") {
  CoreHarness harness([](Job& job) { job.checkpoint = {1, 2}; });
  WorkRequest computed;
  computed.set_session(harness.Join("worker:0"));
  computed.set_computed(1);
  harness.Run(1200);
  REQUIRE(harness.committed.size() == 1);
  harness.Run(2200);
  REQUIRE(harness.committed.size() == 1);  // no batch was computed since
  for (PsDescription& p : harness.ps) {
    for (auto& partition : *p.mutable_partitions()) partition.set_healthy(false);
  }
  for (uint64_t i = 1; i <= 4; ++i) {
    for (PsDescription& p : harness.ps) {
      for (auto& partition : *p.mutable_partitions()) partition.set_updates(i);
    }
    harness.Feed(WorkEvent{++harness.call, computed});
    harness.Run(1200);
  }
  REQUIRE(harness.committed.size() >= 4);
  const std::string healthy = harness.committed[0].name.ToString();
  CHECK(std::find(harness.removed.begin(), harness.removed.end(), healthy) ==
        harness.removed.end());
  CHECK(harness.removed.size() == harness.committed.size() - 3);
}

TEST_CASE("a lease that went with a lost answer is granted again when its worker asks without it") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const WorkReply lost = harness.Work(session);
  REQUIRE(lost.has_lease());
  const WorkReply again = harness.Work(session);
  REQUIRE(again.has_lease());
  CHECK(again.lease().split() == lost.lease().split());
  CHECK(again.lease().id() != lost.lease().id());
}

TEST_CASE("initial weights that cannot be read end the job, a full disk does not") {
  for (const absl::Status& lasting :
       {absl::DataLossError("initial_weights: /w: damaged"), absl::NotFoundError("/w"),
        absl::FailedPreconditionError("/w"), absl::InvalidArgumentError("/w")}) {
    CoreHarness harness;
    harness.load_status = lasting;
    harness.Join("worker:0");
    harness.Run(20000);
    REQUIRE(harness.exit.has_value());
    CHECK(harness.exit->code == 2);
    CHECK(harness.exit->reason.find(std::string(lasting.message())) != std::string::npos);
  }
  CoreHarness harness;
  harness.load_status = absl::ResourceExhaustedError("no space");
  harness.Join("worker:0");
  harness.Run(5000);
  CHECK_FALSE(harness.exit.has_value());
  harness.load_status = absl::OkStatus();
  harness.Run(5000);
  CHECK(harness.core->generation() != 0);
  CHECK(harness.Work(harness.Join("worker:0")).has_lease());
}

TEST_CASE("a ps that dies while it loads is noticed although the order never ends") {
  CoreHarness harness;
  harness.silent_load = true;
  harness.Join("worker:0");
  harness.Run(500);
  REQUIRE(harness.loads.size() == 2);
  harness.silent_load = false;
  harness.ps[0].set_boot_id("boot-new");
  harness.Run(60000);
  CHECK(harness.core->generation() == 2);
  CHECK(harness.Join("worker:0") != 0);
}

TEST_CASE("facts that are larger than any job end it before they are saved") {
  constexpr uint64_t kMany = 300'000'000;  // with two batches a split, 15 million splits
  for (const auto& [records, test_records, epochs] :
       {std::tuple{uint64_t{1} << 50, uint64_t{0}, uint64_t{1}},
        std::tuple{~uint64_t{0}, uint64_t{0}, uint64_t{1}},
        std::tuple{uint64_t{40}, ~uint64_t{0}, uint64_t{1}},
        std::tuple{kMany, uint64_t{0}, uint64_t{1} << 32}}) {
    CoreHarness harness([&, n = epochs](Job& job) { job.epochs = n; });
    CHECK(harness.Join("worker:0", records, test_records) == 0);
    harness.Run(3000);
    REQUIRE(harness.exit.has_value());
    CHECK(harness.exit->code == 2);
    CHECK(harness.job_state.empty());
  }
  CoreHarness harness;
  CHECK(harness.Work(harness.Join("worker:0", kMany)).has_lease());
}

TEST_CASE("facts with variables that no ps would take end the job before they are saved") {
  CoreHarness harness;
  JoinRequest request;
  request.set_task("worker:0");
  request.set_protocol(kProtocol);
  *request.mutable_facts() = harness.Facts();
  request.mutable_facts()->mutable_variables(0)->set_moving_average(
      std::numeric_limits<double>::quiet_NaN());
  harness.Feed(JoinEvent{1, request});
  harness.Run(3000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 2);
  CHECK(harness.exit->reason.find("variable \"dense/bias\" has a moving average") == 0);
  CHECK(harness.job_state.empty());
}

}  // namespace
}  // namespace paracord
