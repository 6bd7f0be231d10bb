// The table of a model's layers that `paracord validate` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "keras/graph.h"

namespace paracord {

// Returns one line for each layer, with shape, parameters, multiply-adds and memory of one example,
// and a line with the totals.
std::string SummaryOf(const std::vector<LayerRow>& rows);

}  // namespace paracord
