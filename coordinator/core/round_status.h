// Describes for people the rounds of a job with lanes. Pure.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the number of the present round and of all rounds; in synchronous training the states of
// the partitions; where known the workers that the round waits for, the duration of a round, and
// the share of time that workers spend waiting; and how often all ps went back to a checkpoint.
// Null if the job has no lanes, or has not begun.
nlohmann::json RoundsJson(const JobView& job);

}  // namespace paracord
