// Finds settings of a job that are allowed but probably mistakes. `paracord validate` and `train`
// print them as warnings: a warning stops nothing and changes no exit code. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"

namespace paracord {

// Returns warnings. Each names a key of the job or a layer of the model.
std::vector<std::string> JobWarnings(const Job& job);

}  // namespace paracord
