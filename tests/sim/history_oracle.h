// Checks the history of epochs in the summary of a simulated cluster. The counting workload gives
// batch p of an epoch the loss 4^p / examples, so that the loss of an epoch times its examples has
// a digit in base 4 for each batch: 0 where nobody told of it, 1 where it counts once, and more
// where it counts twice. A pure function.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns what is wrong with the history of a job that is done with `epochs` epochs, or "". Places
// in `failing` are those of batches that every worker fails on. `all_told`: each worker lived to
// tell of all its batches, and no coordinator was lost.
std::string CheckHistory(const nlohmann::json& summary, const DataPlan& plan, uint64_t epochs,
                         const std::set<uint64_t>& failing, bool all_told);

}  // namespace paracord
