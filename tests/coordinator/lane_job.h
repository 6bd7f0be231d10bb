// A job with rounds, and workers that compute its lanes, for tests of the coordinator's core.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/data_plan.h"
#include "config/proofs.h"
#include "coordinator/core_harness.h"

namespace paracord {

// A job with rounds. The fake ps enter what its workers compute.
class LaneJob : public CoreHarness {
 public:
  explicit LaneJob(uint32_t lanes, uint64_t count = 4000, std::function<void(Job&)> edit = {})
      : CoreHarness([&](Job& said) {
          said.split_batches.reset();
          said.guarantees.staleness = 1;
          if (lanes > 0) said.guarantees.round_batches = lanes;
          if (edit) edit(said);
        }),
        records(count) {}

  const DataPlan& plan() const { return core->View().record.plan(); }
  const SplitTable& table() const { return *core->View().training.table(); }
  void Compute(const Lease& lease, uint32_t batch) {
    uint32_t& next = next_[lease.epoch() * SplitsPerEpoch(plan()) + lease.split()];
    next = std::max(next, batch + 1);
    Ledger ledger;
    uint64_t applied = 0;
    for (const auto& [split, done] : next_) {
      applied += done;
      const bool whole = done == BatchesInSplit(plan(), split % SplitsPerEpoch(plan()));
      const int last = ledger.finished_size() - 1;
      if (whole && last >= 0 && ledger.finished(last).last() + 1 == split) {
        ledger.mutable_finished(last)->set_last(split);
      } else if (whole) {
        SplitInterval& interval = *ledger.add_finished();
        interval.set_first(split);
        interval.set_last(split);
      } else {
        OpenSplit& open = *ledger.add_open();
        open.set_split(split);
        open.set_next(done);
      }
    }
    ledger.set_applied(applied);
    for (PsDescription& p : ps) {
      for (PartitionDescription& partition : *p.mutable_partitions()) {
        *partition.mutable_ledger() = ledger;
      }
    }
  }

  const uint64_t records;

 private:
  std::map<uint64_t, uint32_t> next_;  // keyed by split, over all epochs
};

// A worker that computes a batch of its hindmost lane in each step, and always has a request for a
// task open.
class LaneWorker {
 public:
  LaneWorker(LaneJob& job, const std::string& task)
      : job_(job), task_(task), session_(job.Join(task, job.records)) {
    REQUIRE(session_ != 0);
    Ask();
  }

  void Step() {
    TakeAnswer();
    std::optional<uint64_t> at;
    for (const auto& [id, held] : held_) {
      if (!at.has_value() || held.next < held_.at(*at).next) at = id;
    }
    if (at.has_value() && computes) {
      Held& held = held_.at(*at);
      job_.Compute(held.lease, held.next++);
      ++computed;
      Report(*at);
    }
    if (!asking_.has_value()) Ask();
  }
  void TakeAnswer() {
    if (!asking_.has_value() || !job_.works.contains(*asking_)) return;
    Take(job_.works.at(*asking_));
    asking_.reset();
  }
  // Sends another request although one is open.
  void AskAgain() {
    TakeAnswer();
    Ask();
  }
  uint32_t NextOf(uint64_t lane) const { return HeldOf(lane).next; }
  uint32_t EndOf(uint64_t lane) const { return HeldOf(lane).lease.end_batch(); }
  // Takes the answer and asks again.
  void Wait() {
    TakeAnswer();
    if (!asking_.has_value()) Ask();
  }
  // Reports the next batch of one lease as unreadable.
  void Fail() {
    const auto held = held_.begin();
    WorkRequest request;
    request.set_session(session_);
    LeaseReport& report = *request.add_leases();
    report.set_lease(held->first);
    report.set_next(held->second.next);
    report.set_ended(true);
    report.set_problem(PROBLEM_DATA);
    held_.erase(held);
    job_.Feed(WorkEvent{++job_.call, request});
  }
  void Die() { job_.Feed(WorkerHoldLostEvent{hold_, session_}); }
  void Hold() {
    hold_ = ++job_.call;
    job_.Feed(WorkerHoldEvent{hold_, session_});
  }

  std::set<uint64_t> lanes() const {
    std::set<uint64_t> lanes;
    for (const auto& [id, held] : held_) lanes.insert(held.lease.split());
    return lanes;
  }
  std::set<uint32_t> ends() const {
    std::set<uint32_t> ends;
    for (const auto& [id, held] : held_) ends.insert(held.lease.end_batch());
    return ends;
  }
  uint64_t session() const { return session_; }
  // Reports a whole lease as done without computing it. Returns the lane.
  uint64_t Lie() {
    const auto held = held_.begin();
    const uint64_t lane = held->second.lease.split();
    held->second.next = held->second.lease.end_batch();
    Report(held->first);
    return lane;
  }

  // Reports one more batch of each lease without computing it.
  void LieALittle() {
    std::vector<uint64_t> ids;
    for (const auto& [id, held] : held_) ids.push_back(id);
    for (const uint64_t id : ids) {
      ++held_.at(id).next;
      Report(id);
    }
  }

  bool computes = true;
  std::string waits_for;            // reported by the worker
  double batch_seconds = 0;         // reported by the worker
  std::vector<uint32_t> late = {};  // reported by the worker
  uint64_t computed = 0;
  uint64_t extensions = 0;
  uint64_t leases = 0;

 private:
  struct Held {
    Lease lease;
    uint32_t next;
  };

  const Held& HeldOf(uint64_t lane) const {
    return std::ranges::find_if(held_,
                                [&](const auto& item) { return item.second.lease.split() == lane; })
        ->second;
  }
  void Ask() {
    WorkRequest request;
    request.set_session(session_);
    request.set_want_task(true);
    request.set_waits_for(waits_for);
    for (const uint32_t lane : late) request.add_late(lane);
    for (const auto& [id, held] : held_) request.add_holds(id);
    asking_ = ++job_.call;
    job_.Feed(WorkEvent{*asking_, request});
    TakeAnswer();
  }
  void Report(uint64_t id) {
    const Held& held = held_.at(id);
    WorkRequest request;
    request.set_session(session_);
    request.set_waits_for(waits_for);
    LeaseReport& report = *request.add_leases();
    report.set_lease(id);
    report.set_next(held.next);
    report.set_ended(held.next == held.lease.end_batch());
    request.set_report(++reports_);
    request.set_computed(1);
    request.set_compute_seconds(batch_seconds);
    request.set_waited_seconds(batch_seconds / 2);
    if (report.ended()) held_.erase(id);
    const CallId call = ++job_.call;
    job_.Feed(WorkEvent{call, request});
    Take(job_.works.at(call));
  }
  void Take(const WorkReply& reply) {
    if (reply.has_lease()) TakeOne(reply.lease());
    for (const Lease& lease : reply.lanes()) TakeOne(lease);
  }
  void TakeOne(const Lease& lease) {
    REQUIRE(lease.proof() ==
            LeaseProofOf("key", job_.core->generation(), lease.epoch(), lease.split()));
    const auto at_hand = held_.find(lease.id());
    if (at_hand != held_.end()) {
      REQUIRE(lease.end_batch() >= at_hand->second.lease.end_batch());
      extensions += lease.end_batch() > at_hand->second.lease.end_batch() ? 1 : 0;
      at_hand->second.lease = lease;
    } else if (lease.id() > newest_) {  // older leases have ended here
      held_[lease.id()] = {lease, lease.first_batch()};
      newest_ = lease.id();
      ++leases;
    }
  }

  LaneJob& job_;
  const std::string task_;
  const uint64_t session_;
  CallId hold_ = 0;
  uint64_t reports_ = 0;
  std::optional<CallId> asking_;
  uint64_t newest_ = 0;
  std::map<uint64_t, Held> held_;  // keyed by lease id
};

inline void Steps(LaneJob& job, std::vector<LaneWorker*> workers, int steps, int64_t step_ms = 50) {
  for (int i = 0; i < steps; ++i) {
    job.Run(step_ms);
    for (LaneWorker* worker : workers) worker->Step();
  }
}

using LaneSet = std::set<uint64_t>;

}  // namespace paracord
