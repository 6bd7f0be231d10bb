// The order in which each stage of a pipeline computes the micro-batches of a batch: 1F1B, one
// forward and one backward in turn (Narayanan et al., PipeDream-Flush, "Memory-Efficient
// Pipeline-Parallel DNN Training", 2021, section 2.2). Pure.
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

// Returns the steps of a stage, counted from 0. Every micro-batch goes forward once and later
// backward once. Both passes take micro-batches in ascending order; hence sums over micro-batches
// have a fixed order for any number of stages.
std::vector<StageStep> ScheduleOfStage(size_t stages, size_t stage, size_t micro_batches);

// Returns the most micro-batches that a stage holds at a time: forward done, backward pending. With
// the steps of ScheduleOfStage at most `stages` - `stage`.
size_t HeldAtMost(std::span<const StageStep> steps);

}  // namespace paracord
