// Reads the job's key stop_when. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// `metrics` are the metrics of the job; stop_when names one of them, or the loss. `every_epochs` is
// the number of epochs between evaluations, 0 for a single evaluation at the end. Returns nullopt
// after a problem if the metric that stop_when names is not measured.
std::optional<StopWhen> ReadStopWhen(const nlohmann::json& value,
                                     const std::vector<NamedSpec>& metrics, uint64_t every_epochs,
                                     Problems& problems);

}  // namespace paracord
