// A worker has its leases, the newest evaluation and counters to report to its coordinator. Owned
// by the worker, which makes the calls, on its loop.
//
// Invariants: one call with reports and one that wants a task are under way at most. Counters stand
// under the number of their report until that is answered, and are said again under the same
// number, so that the coordinator counts them once. A lease that a call says has ended is held
// until that call is answered: the other call, which may come first, would set it free, and it
// would be computed twice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "proto/paracord.pb.h"
#include "worker/trainer.h"

namespace paracord {

class WorkReports {
 public:
  // A session begins. Counters of those before it stay.
  void BeginSession();
  void Add(const LeaseReport& report) { reports_[report.lease()] = report; }
  void Add(const EvaluationReport& report) { evaluation_ = report; }
  void Add(const StepCounters& counters) { unreported_[++last_report_] = counters; }
  // Lanes of others that the worker may compute, too; they are said once until there are others, or
  // none.
  void SetLate(std::vector<uint32_t> late);
  // Whether counters wait to be said; if none do, new ones are due before Begin.
  bool has_counters() const { return !unreported_.empty(); }

  bool MayAsk() const { return !asking_; }
  // Whether a call with reports is to be made: at once, because a lease has ended, or now and then.
  bool Due(int64_t now_ms, bool at_once) const;
  // Begins a call with all that there is to report; `ask`: it wants a task and names the leases
  // `held`.
  WorkRequest Begin(bool ask, const std::vector<uint64_t>& held, int64_t now_ms);
  // Begins a call that only says that the worker lives; false if another one says so.
  bool BeginBeat() { return !std::exchange(reporting_, true); }
  // Each call says which lanes are late: else they are not any more.
  void SayLate(WorkRequest& request);
  // The call was answered, or failed.
  void End(const WorkRequest& sent);
  // The call was perhaps not heard: says its reports again, unless there are newer ones.
  void PutBack(const WorkRequest& sent);
  void PutBackCounters(const WorkRequest& sent);

 private:
  std::map<uint64_t, LeaseReport> reports_;  // by lease, the newest
  std::optional<EvaluationReport> evaluation_;
  // Counters whose report was not answered, or of sessions that have ended, by number of the
  // report.
  std::map<uint64_t, StepCounters> unreported_;
  std::vector<uint32_t> late_, late_said_;
  uint64_t last_report_ = 0;
  int64_t reported_ms_ = 0;
  bool reporting_ = false;         // a call with reports is under way
  std::vector<uint64_t> telling_;  // leases that it says have ended
  bool asking_ = false;            // a call that wants a task is under way
};

}  // namespace paracord
