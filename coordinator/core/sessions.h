// The sessions of workers: the workers that have joined, their parked calls (open calls that wait
// for their answers), workers that rest, and tasks still to be told that the job ended. A task has
// one session at most. A new process of a task displaces the previous process for good. Owned by
// the coordinator's core, which opens a session when a worker may take part, gives the workers of
// parked calls something to do, and frees the leases of a session that is over.
//
// Invariants: an id is never reused, not even by a later coordinator; leases take their ids from
// the same sequence. A parked Work call is answered when the session gets a task, sends another
// Work call, has waited for too long, or ends; a Hold call when the session sends another Hold call
// or ends. The end of the job answers both, unless only this coordinator leaves.
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

// The most sessions; also bounds other state of this class that is kept for each task.
inline constexpr size_t kSessionsMax = 100000;
// How many sessions a task may begin in a minute, in each generation; a worker of the task that
// asks for more is told to wait.
inline constexpr uint32_t kSessionsAMinuteMax = 30;

// Members that every report touches come first, because reports of thousands of sessions compete
// for the processor's cache.
struct WorkerSession {
  uint64_t id = 0;
  int64_t last_seen_ms = 0;
  int64_t backoff_until_ms = 0;  // gets no work before this time
  uint32_t failures_in_a_row = 0;
  bool misreports = false;          // a warning says that it reports batches that do not exist
  bool miscounts = false;           // a warning says that its numbers or metrics are impossible
  std::optional<CallId> parked;     // a Work call, which waits for a task
  int64_t parked_ms = 0;            // when `parked` came
  std::optional<int64_t> asked_ms;  // when the worker last asked for a task
  WorkClaims work;
  int64_t counted_ms = 0;  // when `work` last took a report; at first joined_ms
  BatchTime batch_time;
  std::string waits_for;  // what the worker waits for, by its last report; empty: nothing
  // Lanes that the worker waits for and offers to compute itself, by its last report.
  std::vector<uint32_t> late;
  std::optional<CallId> hold;  // a Hold call, which stays open until the session ends
  int64_t joined_ms = 0;
  std::string task;
  std::string device;
  uint32_t devices = 1;  // how many lanes the worker computes in parallel
};

class Sessions {
 public:
  // `named`: the tasks of workers that the cluster names. The first id is last_id + 1.
  Sessions(uint64_t last_id, const std::vector<std::string>& named, Effects& effects);

  const std::map<uint64_t, WorkerSession>& all() const { return sessions_; }
  bool empty() const { return sessions_.empty(); }
  // Null if the session is over.
  WorkerSession* Find(uint64_t id);
  // Whether a session of a task other than `task` is open.
  bool AnyOther(const std::string& task) const;
  // Whether any worker has joined this coordinator.
  bool AnyCame() const { return !boot_of_.empty(); }
  // When the session's worker last called; nullopt if the session is over.
  std::optional<int64_t> HeardMs(uint64_t id) const;

  // The id that the next session or lease is to have; TakeId marks it as used.
  uint64_t next_id() const { return last_id_ + 1; }
  void TakeId() { ++last_id_; }

  // Whether a newer process of its task has displaced the process with this boot id.
  bool Displaced(const std::string& boot_id) const { return displaced_.contains(boot_id); }
  // The open session of a task; nullopt if there is none.
  std::optional<uint64_t> Of(const std::string& task) const;
  // Whether the task may begin another session now; if so, the session is counted. A new generation
  // makes all workers join again, so counting starts anew.
  bool MayOpen(const std::string& task, uint64_t generation, int64_t now_ms) {
    return opened_.Allow(absl::StrCat(task, "/", generation), now_ms);
  }
  // The process `boot_id` takes over `task`. `from_before`: the process may have worked under an
  // earlier coordinator. True if it displaces another process of the task.
  bool BeginLife(const std::string& task, const std::string& boot_id, bool from_before = false);
  // The splits (or lanes) of which the newest process of the task has had leases.
  GivenSplits& GivenTo(const std::string& task) {
    return given_.try_emplace(task, /*from_before=*/true).first->second;
  }
  // Forgets the splits before number `split`, counted across epochs, in the GivenTo of all tasks.
  void ForgetGivenBefore(uint64_t split) {
    for (auto& [task, given] : given_) given.ForgetBefore(split);
  }
  // Opens a session of a task that has none; null if there are kSessionsMax sessions.
  WorkerSession* Open(const std::string& task, std::string device, int64_t now_ms);
  // Ends a session and answers its calls with `why`, which is logged, too, if `logged`. nullopt if
  // the session is already over.
  std::optional<WorkerSession> Close(uint64_t id, const std::string& why, bool logged);

  // A worker's Hold call has come: answers the session's previous Hold call, and leaves the new one
  // to the caller. If there is no such session, answers the new call and returns null.
  WorkerSession* TakeHold(const WorkerHoldEvent& event, int64_t now_ms);
  // The connection of a Hold call broke. True if the call was the newest Hold call of an open
  // session: the caller then ends the session.
  bool LoseHold(const WorkerHoldLostEvent& event);
  // Marks the worker's report `number` as counted. False if it was marked before: the answer was
  // lost, and the worker repeats the report. Always true for 0, a report without a number.
  bool IsNewReport(const WorkerSession& session, uint64_t number);

  void Park(WorkerSession& session, CallId call, int64_t now_ms);
  // Offers work to the sessions with a parked call, one after the other, while `look` returns true.
  // `give` returns true if it has answered the session's call with work. Else a call that has been
  // parked for a second gets the answer that `wait` makes, and if the session rests, that as the
  // reason.
  void ServeParked(int64_t now_ms, const std::function<bool()>& look,
                   const std::function<bool(WorkerSession&, CallId)>& give,
                   const std::function<WorkReply(const WorkerSession&)>& wait);
  // Gives a session no work for ten seconds, so that other workers get the leases; `did` is the
  // reason in the log. If every session then rests, all resume: no single worker is to blame.
  void Rest(WorkerSession& session, int64_t now_ms, const std::string& did);

  // Sessions that were silent for longer than `silent_ms`.
  std::vector<uint64_t> Silent(int64_t now_ms, int64_t silent_ms) const;
  // This coordinator was suspended for `stopped_ms` and heard nobody: the time counts as no
  // worker's silence. For two seconds from now on connections may break because this coordinator
  // was silent (BreaksAreDeaths is false).
  void Forgive(int64_t stopped_ms, int64_t now_ms);
  bool BreaksAreDeaths(int64_t now_ms) const { return now_ms >= heard_all_at_ms_; }

  // Takes a worker's numerics: the properties of its machine on which the bits of its gradients
  // depend. The first time that a worker's numerics differ from the first worker's, returns the
  // first worker, as `worker:1 with "NUMERICS"`, else nullopt.
  std::optional<std::string> NoteNumerics(const std::string& task, const std::string& numerics);
  // Whether all workers so far have reported the same numerics.
  bool same_numerics() const { return same_numerics_; }

  // Asked: the task asks to join. Told: the task has joined, or has heard of the end of the job.
  void Asked(const std::string& task);
  void Told(const std::string& task) {
    unnotified_.erase(task);
    asking_.erase(task);
  }
  // Whether no task is left to tell of the end. Left are `named` tasks and those that have asked to
  // join, until Told, and those whose sessions had no open call at TellAll.
  bool AllTold() const { return unnotified_.empty(); }
  // How many tasks have asked to join and have no session yet.
  size_t asking() const { return asking_.size(); }
  // The job has ended: answers the open calls of all sessions with an order to leave.
  void TellAll(const Exit& exit);
  // No task needs to be told, because only this coordinator leaves.
  void TellNobody() { unnotified_.clear(); }

 private:
  Effects& effects_;
  uint64_t last_id_;
  std::map<uint64_t, WorkerSession> sessions_;
  absl::flat_hash_map<uint64_t, WorkerSession*> by_id_;  // index of sessions_, for speed
  std::map<std::string, uint64_t> session_of_;           // key: task
  std::set<uint64_t> parked_;  // has the sessions with a parked call, and perhaps others
  // Of the newest process of each task: the boot id, the numbers of the reports that were counted,
  // and the splits and lanes that it had leases of.
  std::map<std::string, std::string> boot_of_;
  std::map<std::string, std::set<uint64_t>> reports_counted_;
  std::map<std::string, GivenSplits> given_;
  std::set<std::string> displaced_;   // boot ids of displaced processes
  std::set<std::string> unnotified_;  // tasks that have to be told of the end
  std::set<std::string> asking_;      // tasks that have asked to join and have no session yet
  RateLimit opened_{kSessionsAMinuteMax, 60000, kSessionsMax};  // key: task and generation
  int64_t heard_all_at_ms_ = 0;           // a connection that breaks earlier is no death
  std::string numerics_task_, numerics_;  // the first worker, and its numerics
  bool same_numerics_ = true;
};

// Returns an answer that tells a worker to leave, with the exit's code and reason.
template <class Reply>
Reply LeaveReply(const Exit& exit) {
  Reply reply;
  reply.mutable_leave()->set_exit_code(exit.code);
  reply.mutable_leave()->set_reason(exit.reason);
  return reply;
}

}  // namespace paracord
