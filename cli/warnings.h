// What a job may say but hardly can mean: lines for people, from `paracord validate` and `train`. A
// warning stops nothing and changes no exit code. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"

namespace paracord {

// Each names its key, or the layer.
std::vector<std::string> JobWarnings(const Job& job);

}  // namespace paracord
