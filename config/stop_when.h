// Reads the job's key stop_when. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// `metrics` are the job's; stop_when names one of them. `every_epochs` is the number of epochs
// between evaluations, 0 for a single evaluation at the end. Returns nullopt and notes a problem if
// stop_when names no metric that is measured.
std::optional<StopWhen> ReadStopWhen(const nlohmann::json& value,
                                     const std::vector<NamedSpec>& metrics, uint64_t every_epochs,
                                     Problems& problems);

}  // namespace paracord
