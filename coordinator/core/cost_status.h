// Describes for people the strategy of a job, its time per batch, and the estimated time under
// every alternative strategy of the cluster. Pure.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the `name` of the strategy and `why`.
nlohmann::json StrategyJson(const JobView& job);

// Returns what was measured, and of each strategy what is predicted (config/step_cost.h), fastest
// first. Null before 50 batches, or rounds, of this life of the coordinator.
nlohmann::json CostJson(const JobView& job);

}  // namespace paracord
