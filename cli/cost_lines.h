// What a job's batches cost, and would cost under other strategies, in words. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/job.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns what a status' `cost` says: what was measured, what is predicted for each strategy, and a
// warning if another one than the one that runs is predicted to be 1.3 times as fast. None if the
// status has no cost yet.
std::vector<std::string> CostLines(const nlohmann::json& status);

// Returns what is known of a step before anything is measured: its multiply-adds (0: not known),
// the bytes of an exchange but for the rows of tables, and by which formula `paracord train`
// predicts. `holders`: how many processes hold the variables, which are workers if the job's
// strategy says so.
std::string StepText(const Job& job, std::span<const VariableSpec> variables, int64_t multiply_adds,
                     uint64_t holders);

}  // namespace paracord
