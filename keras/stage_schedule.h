// The order in which each stage of a pipeline computes the micro-batches of a batch: 1F1B, one
// forward and one backward in turn (PipeDream-Flush in Narayanan et al., "Memory-Efficient
// Pipeline-Parallel DNN Training", 2021). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace paracord {

struct StageStep {
  bool forward = true;
  size_t micro_batch = 0;
  bool operator==(const StageStep&) const = default;
};

// Returns the steps of stage number `stage`, where the first stage has number 0. Every micro-batch
// goes forward once and later backward once. Forward steps take the micro-batches in ascending
// order, and so do backward steps: the order of sums does not depend on the number of stages.
std::vector<StageStep> ScheduleOfStage(size_t stages, size_t stage, size_t micro_batches);

// Returns the most micro-batches that have gone forward, but not yet backward, at any one time of
// `steps`. For the steps of ScheduleOfStage this is at most `stages` - `stage`.
size_t HeldAtMost(std::span<const StageStep> steps);

}  // namespace paracord
