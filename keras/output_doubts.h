// Finds losses and metrics that probably misread the model's last layers: logits taken for
// probabilities, or the reverse. Returns lines for people, no errors. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "keras/json.h"

namespace paracord {

// Each line names the output (if several), the loss or metric, the layer, and a remedy.
std::vector<std::string> OutputDoubts(const Job& job, const ModelSpec& model);

}  // namespace paracord
