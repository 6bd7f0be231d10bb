// Describes for people the rounds of a job with lanes. A pure function.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the number of the round under way and of all rounds; how often a lane got a second lease,
// and how often all ps loaded a checkpoint; the time that workers have spent waiting for lanes; in
// synchronous training the least and greatest number of rounds that partitions have applied, how
// gradients are summed, and whether all workers compute with the same numerics; where known the
// workers that the round waits for, the seconds of a round, and the waiting share of workers' time.
// Null if the job has no lanes, or has not begun.
nlohmann::json RoundsJson(const JobView& job);

}  // namespace paracord
