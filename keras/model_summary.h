// The table of a model's layers, printed by `paracord validate`. Pure.
#pragma once

#include <string>
#include <vector>

#include "keras/graph.h"

namespace paracord {

// Returns a heading, a line for each layer, and a line of totals. A layer's line has its output's
// shape, its number of parameters and, for one example, its forward multiply-adds and output bytes.
std::string SummaryOf(const std::vector<LayerRow>& rows);

}  // namespace paracord
