// Describes for people the rounds of a job with lanes. A pure function.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the number of the round under way, and how many rounds the job has; how often a lane got
// a second lease, and how often all ps went back to a checkpoint; the time that workers have spent
// waiting for lanes of other workers. In synchronous training also the least and greatest number of
// rounds that partitions have applied, how gradients are summed, and whether all workers compute
// with the same numerics. Where known also whom the round waits for, the usual seconds of a round,
// and the waiting share of workers' time. Null if the job has no lanes, or has not begun.
nlohmann::json RoundsJson(const JobView& job);

}  // namespace paracord
