// Describes for people the growing tables of a job. Pure.
#pragma once

#include <span>

#include "coordinator/core/ps_tracker.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns for each growing table, by the name of its variable, the sums over its partitions; null
// if no table grows.
nlohmann::json TablesJson(std::span<const VariableSpec> variables, const PsTracker& tracker);

}  // namespace paracord
