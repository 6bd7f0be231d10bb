// The table of a model's layers that `paracord validate` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "keras/graph.h"

namespace paracord {

// One line for each layer, with shape, parameters, multiply-adds and memory of one example, and
// totals.
std::string SummaryOf(const std::vector<LayerRow>& rows);

}  // namespace paracord
