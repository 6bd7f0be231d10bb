#include "coordinator/core.h"

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "common/protocol.h"

namespace paracord {
namespace {

// Two ps that answer everything at once, and files that always work, unless a test says otherwise.
class CoreHarness {
 public:
  explicit CoreHarness(std::function<void(Job&)> edit = {}, FoundInDir found = {}) {
    CoreOptions options;
    options.job.name = "test";
    options.job.model = nlohmann::json::object();
    options.job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
    options.job.loss = {"mean_squared_error"};
    options.job.optimizer = {"sgd"};
    options.job.batch = 10;
    options.job.split_batches = 2;
    options.job.epochs = 2;
    options.job.checkpoint.every_seconds = 0;
    if (edit) edit(options.job);
    if (found.generation == 0) found.generation = 1;
    options.ps_addresses = {"unix:/ps-0", "unix:/ps-1"};
    options.boot_id = "c";
    options.new_run_id = "run";
    options.dir = "/job";
    for (int i = 0; i < 2; ++i) ps[i].set_boot_id("boot-" + std::to_string(i));
    for (auto& p : ps) p.set_protocol(kProtocol);
    core = std::make_unique<CoordinatorCore>(std::move(options), std::move(found), now);
    Feed(TickEvent());
  }

  void Feed(Event event) {
    queue.push_back(std::move(event));
    while (!queue.empty()) {
      const Event next = std::move(queue.front());
      queue.pop_front();
      for (Effect& effect : core->Step(now, next)) {
        std::visit([this](auto& e) { Take(e); }, effect);
      }
    }
  }
  void Run(int64_t ms) {
    for (const int64_t until = now + ms; now < until; now += kTickMs) Feed(TickEvent());
  }

  void Take(AnswerJoin& e) { joins[e.call] = e.reply; }
  void Take(AnswerWork& e) { works[e.call] = e.reply; }
  void Take(AnswerHold& e) { holds.insert(e.call); }
  void Take(ClaimGeneration& e) {
    queue.push_back(GenerationClaimedEvent{
        e.generation, lose_claim ? absl::AlreadyExistsError("exists") : absl::OkStatus()});
  }
  void Take(FindNewestGeneration&) { queue.push_back(NewestGenerationEvent{core->generation()}); }
  void Take(WriteJobState& e) {
    job_state = e.contents;
    queue.push_back(JobStateWrittenEvent{absl::OkStatus()});
  }
  void Take(MakeRoundDirectory& e) {
    queue.push_back(RoundDirectoryMadeEvent{e.round, round_status});
  }
  void Take(CommitRound& e) {
    committed.push_back(e.manifest);
    queue.push_back(RoundCommittedEvent{e.round, absl::OkStatus()});
  }
  void Take(RemoveCheckpoints& e) {
    removed.insert(removed.end(), e.directories.begin(), e.directories.end());
  }
  void Take(WriteSummary& e) {
    summary = e.contents;
    queue.push_back(SummaryWrittenEvent{absl::OkStatus()});
  }
  void Take(Log& e) { log += e.text + "\n"; }
  void Take(Exit& e) { exit = e; }
  void Take(CallPs& e) {
    if (dead.contains(e.ps)) {
      if (std::holds_alternative<PsHoldRequest>(e.request)) return;
      return Answer(e, absl::UnavailableError("no connection"));
    }
    PsDescription& mine = ps[e.ps];
    if (const auto* adopt = std::get_if<AdoptRequest>(&e.request)) {
      mine.set_generation(adopt->generation());
    } else if (const auto* load = std::get_if<LoadRequest>(&e.request)) {
      loads.push_back(*load);
      if (silent_load) return;
      mine.set_run_id(load->fence().run_id());
      mine.clear_partitions();
      for (const PartitionSpec& partition : load->partitions()) {
        PartitionDescription& entry = *mine.add_partitions();
        entry.set_id(partition.id());
        entry.set_healthy(true);
        entry.mutable_ledger();
      }
    } else if (std::holds_alternative<PsHoldRequest>(e.request)) {
      hold_tags[e.ps] = e.tag;
      return;
    } else if (std::holds_alternative<FinishRequest>(e.request)) {
      finished.insert(e.ps);
      return Answer(e, PsReply(FinishReply()));
    } else if (const auto* snapshot = std::get_if<SnapshotRequest>(&e.request)) {
      SnapshotReply reply;
      reply.set_file("ps-" + std::to_string(snapshot->ps()));
      *reply.mutable_partitions() = mine.partitions();
      return Answer(e, PsReply(reply));
    }
    Answer(e, PsReply(mine));
  }
  void Answer(const CallPs& e, absl::StatusOr<PsReply> reply) {
    queue.push_back(PsAnswerEvent{e.ps, e.tag, std::move(reply)});
  }

  // A worker that joins; its session, or 0.
  uint64_t Join(const std::string& task, uint64_t records = 40) {
    JoinRequest request;
    request.set_task(task);
    request.set_boot_id(task + "-boot");
    request.set_protocol(kProtocol);
    JobFacts& facts = *request.mutable_facts();
    facts.set_records(records);
    facts.set_fingerprint("files");
    facts.add_metric_names("loss");
    VariableSpec& variable = *facts.add_variables();
    variable.set_name("dense/bias");
    variable.add_shape(200000);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    for (int tries = 0; tries < 3; ++tries) {
      Feed(JoinEvent{++call, request});
      if (joins[call].has_session()) return joins[call].session().id();
    }
    return 0;
  }
  WorkReply Work(uint64_t session, std::vector<LeaseReport> reports = {}, bool want = true) {
    WorkRequest request;
    request.set_session(session);
    request.set_want_task(want);
    for (const LeaseReport& report : reports) *request.add_leases() = report;
    Feed(WorkEvent{++call, request});
    return works[call];
  }
  // All partitions enter everything of the split, as the worker's pushes would make them.
  void Enter(const Lease& lease) {
    for (PsDescription& p : ps) {
      for (PartitionDescription& partition : *p.mutable_partitions()) {
        Ledger& ledger = *partition.mutable_ledger();
        const uint64_t split = lease.epoch() * 2 + lease.split();
        entered.insert(split);
        ledger.clear_finished();
        for (const uint64_t s : entered) {
          SplitInterval& interval = *ledger.add_finished();
          interval.set_first(s);
          interval.set_last(s);
        }
        ledger.set_applied(entered.size() * 2);
      }
    }
  }
  static LeaseReport Done(const Lease& lease) {
    LeaseReport report;
    report.set_lease(lease.id());
    report.set_next(lease.end_batch());
    report.set_ended(true);
    return report;
  }

  int64_t now = 1000;
  PsDescription ps[2];
  std::set<uint32_t> dead;
  std::set<uint32_t> finished;
  std::map<uint32_t, uint64_t> hold_tags;
  bool lose_claim = false;
  bool silent_load = false;
  absl::Status round_status;
  std::set<uint64_t> entered;
  std::deque<Event> queue;
  CallId call = 0;
  std::map<CallId, JoinReply> joins;
  std::map<CallId, WorkReply> works;
  std::set<CallId> holds;
  std::vector<LoadRequest> loads;
  std::vector<Manifest> committed;
  std::vector<std::string> removed;
  std::string summary;
  std::string job_state;
  std::string log;
  std::optional<Exit> exit;
  std::unique_ptr<CoordinatorCore> core;
};

void TrainAll(CoreHarness& harness, uint64_t session) {
  std::vector<LeaseReport> reports;
  for (int i = 0; i < 20 && !harness.exit.has_value(); ++i) {
    const WorkReply reply = harness.Work(session, reports);
    reports.clear();
    if (reply.has_lease()) {
      harness.Enter(reply.lease());
      reports.push_back(CoreHarness::Done(reply.lease()));
    } else {
      harness.Run(200);
    }
  }
}

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
  CHECK(nlohmann::json::parse(harness.summary).at("status") == "done");
}

TEST_CASE("an epoch does not close on reports that the ledgers do not bear out") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const WorkReply first = harness.Work(session);
  REQUIRE(first.has_lease());
  const WorkReply second = harness.Work(session, {CoreHarness::Done(first.lease())});
  REQUIRE(second.has_lease());
  // The worker says that all is done; no partition has anything.
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

TEST_CASE("a job that fails at once tells every ps that can be reached, adopted or not") {
  CoreHarness cluster;
  cluster.dead = {0, 1};
  cluster.Run(300);
  JoinRequest request;
  request.set_task("worker:0");
  request.set_protocol(kProtocol);
  request.set_error("/f.npy: no such file");
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
  CHECK(harness.core->StatusJson(harness.now).find("parked") != std::string::npos);
}

TEST_CASE("a worker that sees other files is refused by name") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  CHECK(harness.Join("worker:1", /*records=*/41) == 0);
  CHECK(harness.joins[harness.call].leave().reason().find("worker:1 is refused") !=
        std::string::npos);
  CHECK(harness.joins[harness.call].leave().exit_code() == 2);
}

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
  harness.Run(200);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 6);
  CHECK(nlohmann::json::parse(harness.summary).at("status") == "failed");
}

TEST_CASE("SIGTERM takes a checkpoint and leaves the ps alone") {
  CoreHarness harness;
  harness.Join("worker:0");
  harness.Feed(DrainEvent());
  harness.Run(200);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 143);
  REQUIRE(harness.committed.size() == 1);
  CHECK_FALSE(harness.committed[0].complete);
  CHECK(harness.finished.empty());
}

FoundInDir After(const CoreHarness& earlier) {
  FoundInDir found;
  found.generation = earlier.core->generation() + 1;
  found.job_state = *ParseJobState(earlier.job_state, "job.state");
  return found;
}

TEST_CASE("committed checkpoints that are gone end the job instead of beginning it anew") {
  CoreHarness earlier([](Job& job) { job.checkpoint.every_seconds = 1; });
  earlier.Join("worker:0");
  earlier.Run(1500);
  REQUIRE(earlier.committed.size() == 1);
  CoreHarness later({}, After(earlier));
  later.Join("worker:0");
  later.Run(3000);
  CHECK(later.loads.empty());
  REQUIRE(later.exit.has_value());
  CHECK(later.exit->code == static_cast<int>(ExitCode::kNoCheckpoint));
  CHECK(later.exit->reason.find("/job/checkpoints holds none") != std::string::npos);
  CHECK(later.exit->reason.find("job.state-*") != std::string::npos);
}

TEST_CASE("a job without a checkpoint yet is created again") {
  CoreHarness earlier;
  REQUIRE(earlier.Join("worker:0") != 0);
  CoreHarness later({}, After(earlier));
  CHECK(later.Join("worker:0") != 0);
  CHECK(later.loads.size() == 2);
}

TEST_CASE("a round that fails leaves training alone and is said in the status") {
  CoreHarness harness([](Job& job) { job.checkpoint.every_seconds = 1; });
  const uint64_t session = harness.Join("worker:0");
  harness.round_status = absl::ResourceExhaustedError("no space left");
  harness.Run(1500);
  CHECK(harness.committed.empty());
  CHECK(harness.core->StatusJson(harness.now).find("no space left") != std::string::npos);
  CHECK(harness.Work(session).has_lease());
  harness.round_status = absl::OkStatus();
  harness.Run(6000);
  CHECK_FALSE(harness.committed.empty());
}

TEST_CASE("old checkpoints go, the newest healthy one never does") {
  CoreHarness harness([](Job& job) { job.checkpoint = {1, 2}; });
  harness.Join("worker:0");
  harness.Run(1200);
  REQUIRE(harness.committed.size() == 1);
  for (PsDescription& p : harness.ps) {
    for (auto& partition : *p.mutable_partitions()) partition.set_healthy(false);
  }
  harness.Run(4000);
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

}  // namespace
}  // namespace paracord
