// Finds losses and metrics that probably do not fit the model's last layers: they take logits for
// probabilities or probabilities for logits, or need more than one unit. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "keras/json.h"

namespace paracord {

// Returns a line for each doubt; a doubt is no error. A line names the output (if the model has
// several), the loss or metric, the layer, and a remedy.
std::vector<std::string> OutputDoubts(const Job& job, const ModelSpec& model);

}  // namespace paracord
