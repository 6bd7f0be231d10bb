// Checks the epochs in the summary of a simulated job. The counting workload gives batch p the loss
// 4^p / examples. An epoch's loss times its examples, written in base 4, therefore has a digit per
// batch: 0 for a batch nobody reported, 1 for a batch counted once, more for a batch counted twice.
// A pure function.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns the first fault in the history of a finished job of `epochs` epochs, or "". `failing`:
// batches of an epoch that fail on every worker. `all_told`: every worker reported all its batches,
// and no coordinator died.
std::string CheckHistory(const nlohmann::json& summary, const DataPlan& plan, uint64_t epochs,
                         const std::set<uint64_t>& failing, bool all_told);

}  // namespace paracord
