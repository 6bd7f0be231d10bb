// Describes for people the strategy of a job, how long a batch takes, and how long it would take
// under every other strategy that the cluster allows. Pure functions.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the "name" of the job's strategy and "why" it was chosen.
nlohmann::json StrategyJson(const JobView& job);

// Returns the measured times, and the predicted time of each strategy (config/step_cost.h), fastest
// first. Null until this coordinator has seen 50 batches (with lanes: 50 for each lane).
nlohmann::json CostJson(const JobView& job);

}  // namespace paracord
