// The evaluations of a job: the results so far, the evaluation under way, and the early stop that
// the job's stop_when rule derives from the results. Owned by the core, which says when an epoch is
// to be scored, hands on what workers report, and writes results() and stop() into job.state. It
// emits nothing itself.
//
// Invariants: results() is ordered by epoch, with at most one result an epoch. A new result, or one
// that was voided, is unsaved until job.state has it, and no epoch begins before. The newest result
// is untold until then too: if the coordinator dies first, its successor has the epoch scored
// again, and a result announced early could contradict the second score.
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

  // Takes what an earlier coordinator has saved.
  void Restore(std::vector<EvaluationResult> results, std::optional<StopDecision> stop);

  const std::vector<EvaluationResult>& results() const { return results_; }
  const std::optional<StopDecision>& stop() const { return stop_; }
  // The results that people may be told.
  std::span<const EvaluationResult> told() const;
  bool Has(uint64_t epoch) const;
  // The best result of a job whose stop_when asks for one; null if there is none.
  const EvaluationResult* Best() const;
  // The best result if a checkpoint of what it scored is to be kept; else null.
  const EvaluationResult* KeptBest() const;
  // Whether `epoch`, of `epochs` in all, is to be scored at its end.
  bool Due(uint64_t epoch, uint64_t epochs) const;

  // Begins the evaluation of an epoch whose batches are all done.
  void Start(uint64_t generation, uint64_t epoch, uint64_t records,
             std::vector<std::string> metric_names);
  bool running() const { return running_.has_value(); }
  // Gives up the evaluation under way: a new generation has begun.
  void Cancel() { running_.reset(); }
  bool HasFree() const { return running_.has_value() && running_->HasFree(); }
  // A range of the test records for this session; nullopt if none is free.
  std::optional<EvaluationLease> Grant(uint64_t lease_id, uint64_t session);
  // Frees the ranges of a session, all but those in `held`; true if there were any.
  bool EndSession(uint64_t session, const std::set<uint64_t>& held = {});

  struct ReportOutcome {
    absl::Status status;    // why the report is not counted; its range is free again
    bool hopeless = false;  // the test records cannot be read or scored, time and again
    bool limit = false;     // nothing is wrong with them: something is too small for them
  };
  // Takes what a session reports of a range. Only while an evaluation is running(). A range that
  // the session does not have (any more) changes nothing.
  ReportOutcome Report(uint64_t session, const EvaluationReport& report);
  // Takes the result if all ranges of the evaluation under way are scored, and decides whether it
  // ends the job. True if it did: job.state is to be written.
  bool FinishIfDone();

  // After a restore: drops the results from `first_epoch` on, and any early stop based on them.
  // True if anything was dropped: the caller then writes job.state.
  bool Void(uint64_t first_epoch);
  // Drops all results: what they scored is lost for good.
  void Clear();

  // Whether a result waits for job.state before it is acted on.
  bool unsaved() const { return unsaved_; }
  // job.state has been written, or cannot be. Each returns true once for a result that waited.
  bool TakeUnnotified() { return std::exchange(unnotified_, false); }
  bool TakeUnsaved() { return std::exchange(unsaved_, false); }

 private:
  const Job& job_;
  std::vector<EvaluationResult> results_;
  std::optional<StopDecision> stop_;
  std::optional<Evaluation> running_;
  uint32_t data_failures_ = 0;  // reports in a row of test records that cannot be read
  bool unsaved_ = false;
  bool unnotified_ = false;
};

// The result in a line of the log: "epoch 2/3: test loss=0.1000".
std::string InWords(const EvaluationResult& result, uint64_t epochs);

}  // namespace paracord
