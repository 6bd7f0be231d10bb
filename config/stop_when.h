// Reads the job's key stop_when. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Reads `value`, the value of stop_when. `metrics` are the metrics of the job; stop_when names one
// of them, or the loss. `every_epochs` is the number of epochs between evaluations; 0: there is
// only one, at the end. Returns nullopt, after a problem, if `value` is no object or names another
// metric.
std::optional<StopWhen> ReadStopWhen(const nlohmann::json& value,
                                     const std::vector<NamedSpec>& metrics, uint64_t every_epochs,
                                     Problems& problems);

}  // namespace paracord
