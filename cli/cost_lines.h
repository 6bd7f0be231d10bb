// Describes in words what a job's batches cost, now and under other strategies. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/job.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Describes the `cost` of a status: the measurements, the prediction for each strategy, and a
// warning if another strategy is predicted to be at least 1.3 times as fast. None before costs are
// known.
std::vector<std::string> CostLines(const nlohmann::json& status);

// Describes a step before any measurement: its multiply-adds (0: unknown), the bytes of an exchange
// without table rows, and the formula of `paracord train`'s predictions. `holders`: the number of
// processes that hold the variables (workers, if the job's strategy says so).
std::string StepText(const Job& job, std::span<const VariableSpec> variables, int64_t multiply_adds,
                     uint64_t holders);

}  // namespace paracord
