// The leases, the newest evaluation and the counters that a worker reports to its coordinator.
// Owned by the worker, which makes the calls, on its loop.
// | Invariants: at most one call with reports and one call that wants a task are under way.
// Counters keep the number of their report until the report is answered, and are sent again under
// the same number, so that the coordinator counts them once. When a call says that a lease has
// ended, the worker holds the lease until the call is answered. Otherwise a call for a task,
// arriving first, would set the lease free, and its batches would be computed twice.
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
  // A session begins. Counters of sessions before stay.
  void BeginSession();
  void Add(const LeaseReport& report) { reports_[report.lease()] = report; }
  void Add(const EvaluationReport& report) { evaluation_ = report; }
  void Add(const StepCounters& counters) { unreported_[++last_report_] = counters; }
  // Sets the overdue lanes of other workers that this worker may compute, too. Each set is reported
  // once.
  void SetLate(std::vector<uint32_t> late);
  // Whether counters wait to be reported; if not, Add(StepCounters) is due before Begin.
  bool has_counters() const { return !unreported_.empty(); }

  bool MayAsk() const { return !asking_; }
  // Whether to call with reports: `at_once`, because a lease has ended, or now and then.
  bool Due(int64_t now_ms, bool at_once) const;
  // Begins a call with all reports at hand; `ask`: the call wants a task and names the leases
  // `held`.
  WorkRequest Begin(bool ask, const std::vector<uint64_t>& held, int64_t now_ms);
  // Begins a call that only shows that the worker lives; false: a call under way shows as much.
  bool BeginBeat() { return !std::exchange(reporting_, true); }
  // Adds the late lanes to a call. The coordinator takes lanes that a call leaves out for no longer
  // late.
  void SayLate(WorkRequest& request);
  // The call was answered, or failed.
  void End(const WorkRequest& sent);
  // The coordinator may not have heard the call: reports are sent again unless there are newer
  // reports.
  void PutBack(const WorkRequest& sent);
  void PutBackCounters(const WorkRequest& sent);

 private:
  std::map<uint64_t, LeaseReport> reports_;  // the newest, by lease
  std::optional<EvaluationReport> evaluation_;
  // Counters whose report was not answered, or of sessions that have ended, by number of the
  // report.
  std::map<uint64_t, StepCounters> unreported_;
  std::vector<uint32_t> late_, late_said_;
  uint64_t last_report_ = 0;
  int64_t reported_ms_ = 0;
  bool reporting_ = false;         // a call with reports is under way
  std::vector<uint64_t> telling_;  // leases whose end the call reports
  bool asking_ = false;            // a call that wants a task is under way
};

}  // namespace paracord
