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

// Describes the `cost` in a coordinator's status: the measurements; if the cluster could run
// several strategies, the predicted speed of each; and a warning if another strategy is predicted
// to be at least 1.3 times as fast as the one in use. A job with `overlap` gets no warning, and a
// job in synchronous rounds is warned only of synchronous strategies. Returns no lines before costs
// are known.
std::vector<std::string> CostLines(const nlohmann::json& status);

// Describes a step before any measurement: the multiply-adds of an example (`multiply_adds`; 0:
// unknown), the bytes of an exchange without the rows of tables, and the formula by which `paracord
// train` predicts the time of a step. `holders` is the number of processes that hold the variables:
// the ps, or, without ps, the workers.
std::string StepText(const Job& job, std::span<const VariableSpec> variables, int64_t multiply_adds,
                     uint64_t holders);

}  // namespace paracord
