// Describes for people the growing tables of a job. A pure function.
#pragma once

#include <span>

#include "coordinator/core/ps_tracker.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns for each growing table, by the name of its variable, counts and rates summed over its
// partitions, and the ids in the most pushes; null if the job has no growing table.
nlohmann::json TablesJson(std::span<const VariableSpec> variables, const PsTracker& tracker);

}  // namespace paracord
