// Finds losses and metrics that probably misread the model's last layers: logits are taken for
// probabilities, or the reverse. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "keras/json.h"

namespace paracord {

// Returns lines for people; none is an error. Each line names the output (if there are several),
// the loss or metric, the layer, and a remedy.
std::vector<std::string> OutputDoubts(const Job& job, const ModelSpec& model);

}  // namespace paracord
