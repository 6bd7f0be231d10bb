// Describes the rounds of a job with lanes for people. Pure.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns which round the job has come to, of how many; the states of the partitions, in
// synchronous training; the workers that the round waits for, the duration of a round, and the
// share of time that workers spend waiting, where known; and how often all ps went back to a
// checkpoint. Null if the job has no lanes, or is not begun.
nlohmann::json RoundsJson(const JobView& job);

}  // namespace paracord
