// Finds settings that a job may have but that are probably mistakes: lines for people, from
// `paracord validate` and `train`. A warning stops nothing and changes no exit code. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"

namespace paracord {

// Returns warnings, each of which names its key of the job or its layer of the model.
std::vector<std::string> JobWarnings(const Job& job);

}  // namespace paracord
