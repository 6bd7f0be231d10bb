// The evaluations of a job: the results so far, the evaluation under way, and the early stop that
// the job's stop_when rule derives from the results. Owned by the core, which says when an epoch is
// to be scored, hands on workers' reports, and writes results() and stop() into job.state. Emits no
// effects.
//
// Invariants: results() is ordered by epoch, with at most one result an epoch. A new result, or the
// loss of one by Void, is unsaved until job.state contains the change, and no epoch begins while a
// change is unsaved. Until then told() leaves a new result out: if the coordinator dies first, the
// next coordinator has the epoch scored again, and a result announced early could contradict the
// second score.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "config/job.h"
#include "coordinator/core/evaluation.h"
#include "coordinator/core/job_state.h"

namespace paracord {

class Evaluations {
 public:
  explicit Evaluations(const Job& job) : job_(job) {}

  // Restores the state that an earlier coordinator saved.
  void Restore(std::vector<EvaluationResult> results, std::optional<StopDecision> stop);

  const std::vector<EvaluationResult>& results() const { return results_; }
  const std::optional<StopDecision>& stop() const { return stop_; }
  // The results that people may see: all but a new one that job.state does not contain yet.
  std::span<const EvaluationResult> told() const;
  bool Has(uint64_t epoch) const;
  // The best result; null if stop_when has neither `patience` nor `restore_best`, or if no result
  // has a finite value.
  const EvaluationResult* Best() const;
  // Best() if stop_when has `restore_best`, with which a checkpoint of the state that was scored
  // best is kept; else null.
  const EvaluationResult* KeptBest() const;
  // Whether `epoch` (the first is 0) is to be scored when it ends, in a job of `epochs` epochs.
  bool Due(uint64_t epoch, uint64_t epochs) const;

  // Begins the evaluation of an epoch, all of whose batches are done, on `records` test records.
  void Start(uint64_t generation, uint64_t epoch, uint64_t records,
             std::vector<std::string> metric_names);
  bool running() const { return running_.has_value(); }
  // Abandons the evaluation under way, because a new generation has begun.
  void Cancel() { running_.reset(); }
  bool HasFree() const { return running_.has_value() && running_->HasFree(); }
  // Grants the session a range of the test records; nullopt if no range is free.
  std::optional<EvaluationLease> Grant(uint64_t lease_id, uint64_t session);
  // Frees the session's ranges except those of the leases in `held`; true if a range was freed.
  bool EndSession(uint64_t session, const std::set<uint64_t>& held = {});

  struct ReportOutcome {
    absl::Status status;  // an error: the report does not count; its range is free
    // `failures.per_batch` reports in a row said that test records cannot be read or scored.
    bool hopeless = false;
    bool limit = false;  // a limit of a worker is too small for the records, which may be sound
  };
  // Takes a session's report on a range. Call only while running(). A report on a range that is not
  // leased to the session changes nothing.
  ReportOutcome Report(uint64_t session, const EvaluationReport& report);
  // If all ranges are scored, adds the result and decides whether the result ends the job. True if
  // the evaluation finished: the caller then writes job.state.
  bool FinishIfDone();

  // After a restore: drops the results from `first_epoch` on, and any early stop based on them.
  // True if anything was dropped: the caller then writes job.state.
  bool Void(uint64_t first_epoch);
  // Drops all results, because the trained state that they score is lost for good.
  void Clear();

  // Whether a result, or the loss of one, has to be in job.state before the job goes on.
  bool unsaved() const { return unsaved_; }
  // Called when job.state has been written, or cannot be. TakeUnnotified returns whether there is a
  // new result to announce, TakeUnsaved what unsaved() was; each then resets its flag.
  bool TakeUnnotified() { return std::exchange(unnotified_, false); }
  bool TakeUnsaved() { return std::exchange(unsaved_, false); }

 private:
  const Job& job_;
  std::vector<EvaluationResult> results_;
  std::optional<StopDecision> stop_;
  std::optional<Evaluation> running_;
  // How many reports in a row said that records cannot be read or scored.
  uint32_t data_failures_ = 0;
  bool unsaved_ = false;
  bool unnotified_ = false;
};

// A result as a log line, such as "epoch 2/3: test loss=0.1000".
std::string InWords(const EvaluationResult& result, uint64_t epochs);

}  // namespace paracord
