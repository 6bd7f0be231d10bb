// The coordinator's core with two ps and files (core_fakes.h). Owned by a test.
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
#include "coordinator/core_fakes.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"

namespace paracord {

class CoreHarness : public FakePs, public FakeDir {
 public:
  // `earlier`: takes over the ps of this harness, with their contents.
  explicit CoreHarness(std::function<void(Job&)> edit = {}, FoundInDir found = {},
                       const CoreHarness* earlier = nullptr, std::set<uint32_t> away = {},
                       int64_t agree_ms = 0) {
    dead = std::move(away);
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
    options.proof_key = "key";
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

  // Returns the report that users would get now.
  Report Told() const { return {core->View(), now}; }

  void Take(AnswerJoin& e) { joins[e.call] = e.reply; }
  void Take(AnswerWork& e) { works[e.call] = e.reply; }
  void Take(AnswerHold& e) { holds.insert(e.call); }
  void Take(AnswerScale& e) { scaled = e.reply; }
  void Take(FindNewestGeneration& e) {
    const uint64_t newest = std::max(core->generation(), claimed_by_other);
    queue.push_back(NewestGenerationEvent{newest, e.obeyed});
  }
  void Take(CallPs& e) { Push(FakePs::CarryOut(e, now)); }
  void Take(WriteSummary& e) {
    summary_ms = now;
    Push(FakeDir::CarryOut(e));
  }
  // All other effects are about files.
  template <class T>
  void Take(T& e) {
    Push(FakeDir::CarryOut(e));
  }
  void Push(std::optional<Event> event) {
    if (event.has_value()) queue.push_back(*std::move(event));
  }
  void Take(Log& e) { log += e.text + "\n"; }
  void Take(Exit& e) { exit = e; }

  JobFacts Facts(uint64_t records = 40, uint64_t test_records = 0) const {
    JobFacts facts;
    facts.set_job(job);
    facts.set_records(records);
    facts.set_test_records(test_records);
    facts.set_fingerprint("files");
    facts.add_metric_names("loss");
    VariableSpec& variable = *facts.add_variables();
    variable.set_name("dense/bias");
    if (growing) {
      variable.mutable_table()->set_kind(TableSpec::GROWING);
      variable.add_shape(4);
    }
    variable.add_shape(facts_elements);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    return facts;
  }
  // Delivers the ledgers as of the time of the request.
  void ReleaseLedgers() {
    hold_ledgers = false;
    for (PsAnswerEvent& answer : std::exchange(held_ledgers, {})) Feed(std::move(answer));
  }
  // Joins a worker. Returns the session, or 0.
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
  static LeaseReport Done(const Lease& lease) {
    LeaseReport report;
    report.set_lease(lease.id());
    report.set_next(lease.end_batch());
    report.set_ended(true);
    return report;
  }

  int64_t now = 1000;
  std::deque<Event> queue;
  CallId call = 0;
  std::map<CallId, JoinReply> joins;
  std::map<CallId, WorkReply> works;
  std::set<CallId> holds;
  absl::StatusOr<ScaleReply> scaled;  // the newest answer to somebody who asked for other ps
  int64_t summary_ms = 0;
  std::string log;
  std::optional<Exit> exit;
  uint64_t job = 0;                  // fingerprint of the job
  uint64_t facts_elements = 200000;  // of the only variable
  bool growing = false;              // that one is a growing table of 4 shards
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

// Returns the contents of DIR for the next coordinator.
inline FoundInDir After(const CoreHarness& earlier) {
  FoundInDir found;
  found.generation = earlier.core->generation() + 1;
  found.job_state = *ParseJobState(earlier.job_state, "job.state");
  return found;
}

}  // namespace paracord
