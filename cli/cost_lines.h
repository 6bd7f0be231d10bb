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

// Describes the `cost` of a status: the measurements, the prediction for each strategy if the
// cluster could run several, and, unless the job has `overlap`, a warning if another strategy is
// predicted to be at least 1.3 times as fast; a job in synchronous rounds is advised synchronous
// strategies alone. Returns no lines before costs are known.
std::vector<std::string> CostLines(const nlohmann::json& status);

// Describes a step before any measurement: the multiply-adds of an example (0: unknown), the bytes
// of an exchange without the rows of tables, and the formula of `paracord train`'s predictions.
// `holders` is the number of processes that hold the variables: the ps, or, without ps, the
// workers.
std::string StepText(const Job& job, std::span<const VariableSpec> variables, int64_t multiply_adds,
                     uint64_t holders);

}  // namespace paracord
