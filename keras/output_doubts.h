// What a loss or a metric surely takes for something else than the model's last layers give: logits
// for probabilities, or the other way round. Lines for people; nothing here is an error. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "keras/json.h"

namespace paracord {

// Each names the output where there are several, the loss or metric, the layer, and what to do.
std::vector<std::string> OutputDoubts(const Job& job, const ModelSpec& model);

}  // namespace paracord
