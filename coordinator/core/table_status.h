// Describes a job's growing tables for people. Pure.
#pragma once

#include <span>

#include "coordinator/core/ps_tracker.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns the sums over the partitions of each growing table, by the name of its variable; null if
// no table grows.
nlohmann::json TablesJson(std::span<const VariableSpec> variables, const PsTracker& tracker);

}  // namespace paracord
