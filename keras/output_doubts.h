// Finds losses and metrics that probably misread the model's last layers: logits taken for
// probabilities, or the reverse. The result is lines for people; nothing here is an error. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "keras/json.h"

namespace paracord {

// Each line names the output, if there are several, the loss or metric, the layer, and what to do.
std::vector<std::string> OutputDoubts(const Job& job, const ModelSpec& model);

}  // namespace paracord
