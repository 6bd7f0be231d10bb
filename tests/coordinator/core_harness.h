// The coordinator's core with two ps that answer everything at once, and files that always work,
// unless a test says otherwise. Owned by a test.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/fingerprint64.h"
#include "coordinator/core/core.h"
#include "coordinator/core/report.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"

namespace paracord {

class CoreHarness {
 public:
  // `earlier`: the ps, with all they hold, are those of this one.
  explicit CoreHarness(std::function<void(Job&)> edit = {}, FoundInDir found = {},
                       const CoreHarness* earlier = nullptr, std::set<uint32_t> away = {},
                       int64_t agree_ms = 0)
      : dead(std::move(away)) {
    CoreOptions options;
    options.job.name = "test";
    options.job.model = {{"class_name", "Sequential"},
                         {"config", {{"layers", nlohmann::json::array()}}}};
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
    options.workers = {"worker:0", "worker:1"};
    options.boot_id = "c" + std::to_string(found.generation);
    options.new_run_id = "run";
    options.dir = "/job";
    options.agree_ms = agree_ms;
    for (int i = 0; i < 2; ++i) ps[i].set_boot_id("boot-" + std::to_string(i));
    for (auto& p : ps) p.set_protocol(kProtocol);
    if (earlier != nullptr) {
      for (int i = 0; i < 2; ++i) ps[i] = earlier->ps[i];
      entered = earlier->entered;
    }
    job = Fingerprint64(JobToJson(options.job));
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

  // What people are told now.
  Report Told() const { return {core->View(), now}; }

  void Take(AnswerJoin& e) { joins[e.call] = e.reply; }
  void Take(AnswerWork& e) { works[e.call] = e.reply; }
  void Take(AnswerHold& e) { holds.insert(e.call); }
  void Take(ClaimGeneration& e) {
    claimed = e.generation;
    if (hold_claim) return;
    queue.push_back(GenerationClaimedEvent{
        e.generation, lose_claim ? absl::AlreadyExistsError("exists") : absl::OkStatus()});
  }
  // The status of a write by the one who leads `generation`: files are touched in the order of
  // effects.
  absl::Status Led(uint64_t generation) const {
    return generation < claimed ? absl::AbortedError("a newer one is claimed") : absl::OkStatus();
  }
  void Take(FindNewestGeneration& e) {
    const uint64_t newest = std::max(core->generation(), claimed_by_other);
    queue.push_back(NewestGenerationEvent{newest, e.obeyed});
  }
  void Take(WriteJobState& e) {
    job_state = JobStateToText(e.state);
    if (hold_state) return;
    const absl::Status led = Led(e.generation);
    queue.push_back(JobStateWrittenEvent{led.ok() ? state_status : led});
  }
  void Take(MakeRoundDirectory& e) {
    queue.push_back(RoundDirectoryMadeEvent{e.round, round_status});
  }
  void Take(CommitRound& e) {
    committed.push_back(e.manifest);
    if (hold_commit) return;
    const absl::Status led = Led(e.generation);
    queue.push_back(RoundCommittedEvent{e.round, led.ok() ? commit_status : led});
  }
  void Take(RemoveCheckpoints& e) {
    removed.insert(removed.end(), e.directories.begin(), e.directories.end());
  }
  void Take(RemoveUncommittedRound& e) { uncommitted.push_back(e.directory); }
  void Take(WriteSummary& e) {
    summary = e.contents;
    summary_ms = now;
    if (!hold_summary) queue.push_back(SummaryWrittenEvent{Led(e.generation)});
  }
  void Take(Log& e) { log += e.text + "\n"; }
  void Take(Exit& e) { exit = e; }
  void Take(CallPs& e) {
    if (e.anew) ++dialed_anew[e.ps];
    if (dead.contains(e.ps)) {
      if (std::holds_alternative<PsHoldRequest>(e.request)) return;
      return Answer(e, absl::UnavailableError("no connection"));
    }
    if (hung.contains(e.ps)) return;
    PsDescription& mine = ps[e.ps];
    if (const auto* look = std::get_if<DescribeRequest>(&e.request)) {
      if (look->has_run_id()) looked_ms[e.ps] = now;
    }
    if (const auto* adopt = std::get_if<AdoptRequest>(&e.request)) {
      mine.set_generation(adopt->generation());
      mine.set_coordinator_boot_id(adopt->coordinator_boot_id());
    } else if (const auto* load = std::get_if<LoadRequest>(&e.request)) {
      loads.push_back(*load);
      if (silent_load) return;
      if (load->checkpoint() == damaged) {
        return Answer(e, absl::Status(damage, "/job/checkpoints/" + damaged + "/ps-0"));
      }
      if (!load_status.ok()) return Answer(e, load_status);
      mine.set_other_dir(e.ps == 1 ? other_dir : "");
      if (!mine.other_dir().empty()) return Answer(e, PsReply(mine));
      mine.set_run_id(load->fence().run_id());
      mine.set_settings(PsSettings(ParseJob(load->job_json()).value()));
      if (load->keep()) return Answer(e, PsReply(mine));
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
      if (e.deadline_ms < snapshot_takes_ms) {
        return Answer(e, absl::DeadlineExceededError("no answer"));
      }
      SnapshotReply reply;
      reply.set_file("ps-" + std::to_string(snapshot->ps()));
      *reply.mutable_partitions() = mine.partitions();
      return Answer(e, PsReply(reply));
    }
    const auto* describe = std::get_if<DescribeRequest>(&e.request);
    if (hold_ledgers && describe != nullptr && describe->ledgers()) {
      return held_ledgers.push_back(PsAnswerEvent{e.ps, e.tag, PsReply(mine)});
    }
    Answer(e, PsReply(mine));
  }
  void Answer(const CallPs& e, absl::StatusOr<PsReply> reply) {
    queue.push_back(PsAnswerEvent{e.ps, e.tag, std::move(reply)});
  }

  JobFacts Facts(uint64_t records = 40, uint64_t test_records = 0) const {
    JobFacts facts;
    facts.set_job(job);
    facts.set_records(records);
    facts.set_test_records(test_records);
    facts.set_fingerprint("files");
    facts.add_metric_names("loss");
    VariableSpec& variable = *facts.add_variables();
    variable.set_name("dense/bias");
    variable.add_shape(200000);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    return facts;
  }
  // The ledgers arrive as they were when they were asked for.
  void ReleaseLedgers() {
    hold_ledgers = false;
    for (PsAnswerEvent& answer : std::exchange(held_ledgers, {})) Feed(std::move(answer));
  }
  // A worker that joins; its session, or 0.
  uint64_t Join(const std::string& task, uint64_t records = 40, uint64_t test_records = 0,
                const std::string& boot_id = "boot") {
    JoinRequest request;
    request.set_task(task);
    request.set_boot_id(task + "-" + boot_id);
    request.set_protocol(kProtocol);
    *request.mutable_facts() = Facts(records, test_records);
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
    request.set_computed(reports.size());
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
  std::set<uint32_t> hung;              // ps that answer nothing
  std::map<uint32_t, int> dialed_anew;  // by ps
  std::set<uint32_t> finished;
  std::map<uint32_t, int64_t> looked_ms;  // when a ps last saw that it is not alone
  std::map<uint32_t, uint64_t> hold_tags;
  bool lose_claim = false;
  bool hold_claim = false;  // a claim does not end
  uint64_t claimed = 0;     // the newest claim, ended or not
  uint64_t claimed_by_other = 0;
  bool silent_load = false;
  bool hold_ledgers = false;  // answers with ledgers are kept until ReleaseLedgers
  std::vector<PsAnswerEvent> held_ledgers;
  absl::Status load_status;   // what a ps says to a Load
  std::string other_dir;      // that ps:1 has instead of the coordinator's
  std::string damaged = "-";  // a checkpoint that no ps can load
  absl::StatusCode damage = absl::StatusCode::kDataLoss;
  bool hold_commit = false;  // a commit does not end
  bool hold_state = false;   // a write of job.state does not end
  int64_t snapshot_takes_ms = 0;
  absl::Status state_status;
  absl::Status round_status;
  absl::Status commit_status;
  std::set<uint64_t> entered;
  std::deque<Event> queue;
  CallId call = 0;
  std::map<CallId, JoinReply> joins;
  std::map<CallId, WorkReply> works;
  std::set<CallId> holds;
  std::vector<LoadRequest> loads;
  std::vector<Manifest> committed;
  std::vector<std::string> removed;
  std::vector<std::string> uncommitted;
  std::string summary;
  int64_t summary_ms = 0;
  bool hold_summary = false;  // WriteSummary is not answered
  std::string job_state;
  std::string log;
  std::optional<Exit> exit;
  uint64_t job = 0;  // its fingerprint
  std::unique_ptr<CoordinatorCore> core;
};

inline void TrainAll(CoreHarness& harness, uint64_t session) {
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

// Returns what the next coordinator finds.
inline FoundInDir After(const CoreHarness& earlier) {
  FoundInDir found;
  found.generation = earlier.core->generation() + 1;
  found.job_state = *ParseJobState(earlier.job_state, "job.state");
  return found;
}

}  // namespace paracord
