// The progress of leases, the newest evaluation and the counters that a worker reports to its
// coordinator by WorkRequest. Owned by the worker, which makes the calls. Used on the event loop.
// | Invariants: of calls for a task, and of other calls, no two are under way. Counters have a
// number and are sent again under the number until a call is answered, so that the coordinator
// counts them once. While a call reports the end of a lease, calls for a task name the lease in
// WorkRequest.holds: a call for a task that arrived first would have the lease granted again.
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
  // A session begins: drops all reports of the session before, except counters.
  void BeginSession();
  void Add(const LeaseReport& report) { reports_[report.lease()] = report; }
  void Add(const EvaluationReport& report) { evaluation_ = report; }
  void Add(const StepCounters& counters) { unreported_[++last_report_] = counters; }
  // Sets the overdue lanes of other workers that this worker may compute, too. A change makes a
  // call due.
  void SetLate(std::vector<uint32_t> late);
  // Whether counters wait to be reported; if not, call Add(StepCounters) before Begin.
  bool has_counters() const { return !unreported_.empty(); }

  // Whether no call that wants a task is under way.
  bool MayAsk() const { return !asking_; }
  // Whether to call Begin without `ask`: if `at_once`, if a lease has ended, or for an evaluation
  // or a change of late lanes; every 50 ms for progress.
  bool Due(int64_t now_ms, bool at_once) const;
  // Begins a call with all reports at hand. `ask`: the call wants a task, and names the leases
  // `held` that the worker has at hand.
  WorkRequest Begin(bool ask, const std::vector<uint64_t>& held, int64_t now_ms);
  // Begins a call that only shows that the worker lives; false: some call without `ask` does so.
  bool BeginBeat() { return !std::exchange(reporting_, true); }
  // Adds the late lanes to a call, as every call needs: to the coordinator, lanes that a call does
  // not name are no longer late.
  void SayLate(WorkRequest& request);
  // A call was answered, or failed.
  void End(const WorkRequest& sent);
  // A call failed, and the coordinator may not have received it: its reports, or newer ones of the
  // same leases, go with the next call. PutBackCounters does so for its counters.
  void PutBack(const WorkRequest& sent);
  void PutBackCounters(const WorkRequest& sent);

 private:
  std::map<uint64_t, LeaseReport> reports_;  // keyed by lease; the newest report of each
  std::optional<EvaluationReport> evaluation_;
  // Counters that no call under way carries and no answer has confirmed, keyed by number of report.
  std::map<uint64_t, StepCounters> unreported_;
  std::vector<uint32_t> late_, late_said_;  // late lanes, and those that the last call named
  uint64_t last_report_ = 0;                // the number of the last report of counters
  int64_t reported_ms_ = 0;                 // when the last Begin was
  bool reporting_ = false;                  // a call that wants no task is under way
  std::vector<uint64_t> telling_;           // the leases whose end this call reports
  bool asking_ = false;                     // a call that wants a task is under way
};

}  // namespace paracord
