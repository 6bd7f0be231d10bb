// The number of epochs and batches of a job: from the job's `epochs` or `steps`, its data plan, and
// a decision to stop early. A plain value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "config/data_plan.h"
#include "config/job.h"
#include "coordinator/core/job_state.h"

namespace paracord {

class JobExtent {
 public:
  JobExtent(const Job& job, const DataPlan& plan, const std::optional<StopDecision>& stop)
      : per_epoch_(BatchesPerEpoch(plan)), epochs_(job.epochs) {
    if (job.steps.has_value()) {
      steps_ = UpToEndOfRound(plan, *job.steps);
      epochs_ = DivideUp(*steps_, per_epoch_);
    }
    if (stop.has_value()) epochs_ = std::min(epochs_, stop->epochs);
  }

  uint64_t epochs() const { return epochs_; }
  uint64_t batches() const { return BatchesUpTo(epochs_); }
  // The number of batches in the first `epochs` epochs; `steps` may end the last of them early.
  uint64_t BatchesUpTo(uint64_t epochs) const {
    const uint64_t end = epochs * per_epoch_;
    return steps_.has_value() ? std::min(end, *steps_) : end;
  }
  // Returns 0 for an epoch after the job's last.
  uint64_t BatchesOfEpoch(uint64_t epoch) const {
    const uint64_t before = epoch * per_epoch_;
    return before >= batches() ? 0 : std::min(per_epoch_, batches() - before);
  }

 private:
  uint64_t per_epoch_;
  std::optional<uint64_t> steps_;  // the job's `steps`, rounded up to the end of a round
  uint64_t epochs_;
};

}  // namespace paracord
