// The job's stop_when judges the evaluations so far: which is the best, whether the newest ends the
// job, and whether a checkpoint holds what was scored. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "config/job.h"
#include "coordinator/core/job_state.h"
#include "storage/checkpoint.h"

namespace paracord {

// The place of the best one: better than all before it by more than min_delta. Nothing if none has
// a finite value of the metric.
std::optional<size_t> BestEvaluation(std::span<const EvaluationResult> evaluations,
                                     const StopWhen& when);

// Why the newest evaluation ends the job; nothing if it does not.
std::optional<std::string> WhyStop(std::span<const EvaluationResult> evaluations,
                                   const StopWhen& when);

// Whether every partition that is trained has exactly so many batches entered.
bool HoldsBatches(const Manifest& manifest, uint64_t batches);

}  // namespace paracord
