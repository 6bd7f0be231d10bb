// The progress of leases, the newest evaluation and the counters that a worker reports to its
// coordinator by WorkRequest. Owned by the worker, which makes the calls. Used on the event loop.
// | Invariants: at most one call that asks for a task and one call that asks for none are under
// way. Counters have a number, and are sent again under that number until a call with them is
// answered, so that the coordinator counts them once. While a call reports the end of a lease, a
// call that asks for a task still names that lease in WorkRequest.holds. Otherwise, if the call
// that asks arrived first, the coordinator would take the lease for lost and grant it again.
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
  // A session begins: drops what is not reported yet of the session before, except counters.
  void BeginSession();
  void Add(const LeaseReport& report) { reports_[report.lease()] = report; }
  void Add(const EvaluationReport& report) { evaluation_ = report; }
  void Add(const StepCounters& counters) { unreported_[++last_report_] = counters; }
  // Sets the late lanes (Trainer::Late). A call is due if there are late lanes and the last call
  // did not name exactly these.
  void SetLate(std::vector<uint32_t> late);
  // Whether counters wait to be reported. If not, the caller adds counters before Begin.
  bool has_counters() const { return !unreported_.empty(); }

  // Whether no call that asks for a task is under way.
  bool MayAsk() const { return !asking_; }
  // Whether the caller should call Begin without `ask`. Always false while a call without `ask` is
  // under way. Otherwise true if `at_once`, after the end of a lease, after an evaluation, for late
  // lanes (SetLate), and for progress if the last Begin was 50 ms ago.
  bool Due(int64_t now_ms, bool at_once) const;
  // Begins a call with the reports of leases and of an evaluation, and with the oldest counters.
  // `ask`: the call asks for a task, and names the leases `held`, which the worker has at hand.
  WorkRequest Begin(bool ask, const std::vector<uint64_t>& held, int64_t now_ms);
  // Begins a call that only shows that the worker lives. False: a call without `ask` is under way.
  bool BeginBeat() { return !std::exchange(reporting_, true); }
  // Adds the late lanes to a call that Begin has not made. Every call has to name them, because the
  // coordinator takes lanes that a call does not name for no longer late.
  void SayLate(WorkRequest& request);
  // The call `sent` was answered, or failed.
  void End(const WorkRequest& sent);
  // The call `sent` failed, and the coordinator may not have received it: the next call has its
  // reports, or newer reports of the same leases. PutBackCounters does this for its counters.
  void PutBack(const WorkRequest& sent);
  void PutBackCounters(const WorkRequest& sent);

 private:
  std::map<uint64_t, LeaseReport> reports_;  // keyed by the lease's id; the newest report of each
  std::optional<EvaluationReport> evaluation_;
  // Counters that no answer has confirmed and no call under way carries, keyed by their number.
  std::map<uint64_t, StepCounters> unreported_;
  std::vector<uint32_t> late_, late_said_;  // late lanes, and those that the last call named
  uint64_t last_report_ = 0;                // the number of the newest counters
  int64_t reported_ms_ = 0;                 // when the last Begin was
  bool reporting_ = false;                  // a call that asks for no task is under way
  std::vector<uint64_t> telling_;           // the leases whose end that call reports
  bool asking_ = false;                     // a call that asks for a task is under way
};

}  // namespace paracord
