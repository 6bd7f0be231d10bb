// The sessions of workers: who has joined, which calls are parked, which workers rest, and which
// workers could not be told that the job ended. A task has one session. A new process of a task
// displaces the previous process for good; otherwise the two would displace each other for ever.
// Owned by the core, which opens a session when a worker may take part, gives parked workers
// something to do, and frees the leases of a session that is over.
//
// Invariants: ids are never used again, by any life of a coordinator, and leases draw theirs from
// here too. A call that is parked or held is answered once, by the next of its kind, by a task or
// by the end of its session. Somebody is untold who has no session to hear an end from, but is
// named by the cluster or has asked to join.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/rate_limit.h"
#include "coordinator/core/batch_time.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/events.h"
#include "coordinator/core/given_splits.h"
#include "coordinator/core/work_claims.h"

namespace paracord {

inline constexpr size_t kSessionsMax = 100000;  // and of whatever else is kept for each task
// A task begins a session so many times in a minute and a generation; beyond that it is told to
// wait.
inline constexpr uint32_t kSessionsAMinuteMax = 30;

// The members that every report touches come first, because reports of thousands of sessions take
// turns in the processor's cache.
struct WorkerSession {
  uint64_t id = 0;
  int64_t last_seen_ms = 0;
  int64_t backoff_until_ms = 0;  // it gets nothing to do before
  uint32_t failures_in_a_row = 0;
  bool misreports = false;       // it reported batches that are not there
  bool miscounts = false;        // it reported numbers that cannot be
  std::optional<CallId> parked;  // a Work call that waits for a task
  int64_t parked_ms = 0;
  std::optional<int64_t> asked_ms;  // when it last wanted a task
  WorkClaims work;
  int64_t counted_ms = 0;  // when `work` last took a report, or it joined
  BatchTime batch_time;
  std::string waits_for;  // from its last report
  // Lanes that the worker waits for and offers to compute itself, from its last report.
  std::vector<uint32_t> late;
  std::optional<CallId> hold;  // a call that hears of the end
  int64_t joined_ms = 0;
  std::string task;
  std::string device;
  uint32_t devices = 1;  // devices that compute lanes in parallel
};

class Sessions {
 public:
  // `named` are the tasks that the cluster names. The first id is after `last_id`.
  Sessions(uint64_t last_id, const std::vector<std::string>& named, Effects& effects);

  const std::map<uint64_t, WorkerSession>& all() const { return sessions_; }
  bool empty() const { return sessions_.empty(); }
  // Null if it is over.
  WorkerSession* Find(uint64_t id);
  // Whether a session of another task than this one is open.
  bool AnyOther(const std::string& task) const;
  // Whether any worker has joined this coordinator.
  bool AnyCame() const { return !boot_of_.empty(); }
  // When the session was last heard; nullopt if it is over.
  std::optional<int64_t> HeardMs(uint64_t id) const;

  // The id of the next session or lease, and that it is taken.
  uint64_t next_id() const { return last_id_ + 1; }
  void TakeId() { ++last_id_; }

  // Whether a process with this boot id had to give its place to a newer one.
  bool Displaced(const std::string& boot_id) const { return displaced_.contains(boot_id); }
  // The open session of a task; nullopt if there is none.
  std::optional<uint64_t> Of(const std::string& task) const;
  // Whether a task may begin another session now, which is counted if so. A new generation, which
  // makes all workers join again, counts anew.
  bool MayOpen(const std::string& task, uint64_t generation, int64_t now_ms) {
    return opened_.Allow(absl::StrCat(task, "/", generation), now_ms);
  }
  // A process takes the place of `task`, one that has perhaps worked for an earlier coordinator of
  // the job (`from_before`). True if another life had the task.
  bool BeginLife(const std::string& task, const std::string& boot_id, bool from_before = false);
  // What the newest life of a task was given to do.
  GivenSplits& GivenTo(const std::string& task) {
    return given_.try_emplace(task, /*from_before=*/true).first->second;
  }
  void ForgetGivenBefore(uint64_t split) {
    for (auto& [task, given] : given_) given.ForgetBefore(split);
  }
  // Opens a session of a task that has none; null if there are too many.
  WorkerSession* Open(const std::string& task, std::string device, int64_t now_ms);
  // Ends a session and answers its calls; `why` is logged if `logged`. Nothing if it is over.
  std::optional<WorkerSession> Close(uint64_t id, const std::string& why, bool logged);

  // A worker's hold comes; the one before it is answered. Null, and answered, if it has no session.
  WorkerSession* TakeHold(const WorkerHoldEvent& event, int64_t now_ms);
  // True if that was the newest hold of a session, which is over: its connection broke.
  bool LoseHold(const WorkerHoldLostEvent& event);
  // False for a report that was counted, and is said again because its answer was lost.
  bool IsNewReport(const WorkerSession& session, uint64_t number);

  void Park(WorkerSession& session, CallId call, int64_t now_ms);
  // Gives parked sessions something to do by `give`, which answers the call if it returns true, as
  // long as `look` says that there may be something. Who has waited for too long gets the answer
  // that `wait` makes, with the reason, unless it rests.
  void ServeParked(int64_t now_ms, const std::function<bool()>& look,
                   const std::function<bool(WorkerSession&, CallId)>& give,
                   const std::function<WorkReply(const WorkerSession&)>& wait);
  // Lets a session back off for kBackoffMs, so that other workers get the leases; `did` is the
  // reason in the log. If every session backs off, all resume: no single worker is to blame.
  void Rest(WorkerSession& session, int64_t now_ms, const std::string& did);

  // Sessions that were silent for longer than `silent_ms`.
  std::vector<uint64_t> Silent(int64_t now_ms, int64_t silent_ms) const;
  // This coordinator did not run for so long, and could hear nobody. For a while connections break
  // from its own silence.
  void Forgive(int64_t stopped_ms, int64_t now_ms);
  bool BreaksAreDeaths(int64_t now_ms) const { return now_ms >= heard_all_at_ms_; }

  // A worker tells what the bits of its gradients depend on. Returns whose differ, once for all, as
  // "worker:1 with NUMERICS".
  std::optional<std::string> NoteNumerics(const std::string& task, const std::string& numerics);
  // Whether all workers that told it have told the same.
  bool same_numerics() const { return same_numerics_; }

  // A worker asks to join, or has been told of the end.
  void Asked(const std::string& task);
  void Told(const std::string& task) {
    unnotified_.erase(task);
    asking_.erase(task);
  }
  bool AllTold() const { return unnotified_.empty(); }
  // How many tasks have asked to join and wait.
  size_t asking() const { return asking_.size(); }
  // Tells all sessions to leave that have a call to answer.
  void TellAll(const Exit& exit);
  // Nobody needs to be told: only this coordinator leaves.
  void TellNobody() { unnotified_.clear(); }

 private:
  Effects& effects_;
  uint64_t last_id_;
  std::map<uint64_t, WorkerSession> sessions_;
  absl::flat_hash_map<uint64_t, WorkerSession*> by_id_;  // the same, to find them fast
  std::map<std::string, uint64_t> session_of_;           // key: task
  std::set<uint64_t> parked_;                            // parked now or earlier
  std::map<std::string, std::string> boot_of_;           // task -> boot id of its newest process
  std::map<std::string, std::set<uint64_t>> reports_counted_;   // the newest of that life
  std::map<std::string, GivenSplits> given_;                    // to the newest life of each task
  std::set<std::string> displaced_;                             // boot ids of the lives before
  std::set<std::string> unnotified_;                            // tasks
  std::set<std::string> asking_;                                // tasks that have no session yet
  RateLimit opened_{kSessionsAMinuteMax, 60000, kSessionsMax};  // per task and generation
  int64_t heard_all_at_ms_ = 0;                                 // after a stop
  std::string numerics_task_, numerics_;                        // from the first report
  bool same_numerics_ = true;
};

// Sends a worker away; `Reply` is that of one of its calls.
template <class Reply>
Reply LeaveReply(const Exit& exit) {
  Reply reply;
  reply.mutable_leave()->set_exit_code(exit.code);
  reply.mutable_leave()->set_reason(exit.reason);
  return reply;
}

}  // namespace paracord
