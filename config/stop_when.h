// Reads the job's key stop_when. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// `metrics`: of the job, of which stop_when names one. `every_epochs`: between evaluations, 0 if
// there is one at the end alone. Returns nothing where it does not say what is measured, which
// `problems` tells.
std::optional<StopWhen> ReadStopWhen(const nlohmann::json& value,
                                     const std::vector<NamedSpec>& metrics, uint64_t every_epochs,
                                     Problems& problems);

}  // namespace paracord
