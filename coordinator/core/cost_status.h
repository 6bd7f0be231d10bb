// Describes for people the strategy of a job, its time for a batch, and the estimated time under
// every alternative strategy of the cluster. Pure.
#pragma once

#include "coordinator/core/job_view.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the strategy's `name` and `why` it was chosen.
nlohmann::json StrategyJson(const JobView& job);

// Returns the measured times, and for each strategy the predicted time (config/step_cost.h),
// fastest first. Null until this coordinator has seen 50 batches (with lanes: 50 rounds).
nlohmann::json CostJson(const JobView& job);

}  // namespace paracord
