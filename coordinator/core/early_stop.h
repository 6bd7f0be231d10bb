// The job's stop_when rule applied to the evaluations so far: which evaluation is the best, whether
// the newest ends the job, and whether a checkpoint holds a scored state. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "config/job.h"
#include "coordinator/core/job_state.h"
#include "storage/checkpoint.h"

namespace paracord {

// Returns the index of the best evaluation. A later evaluation becomes the best only if it is
// better than the best so far by more than min_delta. nullopt if the metric is finite in none.
std::optional<size_t> BestEvaluation(std::span<const EvaluationResult> evaluations,
                                     const StopWhen& when);

// Returns why the newest evaluation ends the job; nullopt if it does not.
std::optional<std::string> WhyStop(std::span<const EvaluationResult> evaluations,
                                   const StopWhen& when);

// Whether every trained partition in the checkpoint has entered exactly `batches` batches.
bool HoldsBatches(const Manifest& manifest, uint64_t batches);

}  // namespace paracord
