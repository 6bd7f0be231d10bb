// The table of a model's layers, printed by `paracord validate`. Pure.
#pragma once

#include <string>
#include <vector>

#include "keras/graph.h"

namespace paracord {

// Returns a line for each layer, with shape, parameters, multiply-adds and memory per example, and
// a line of totals.
std::string SummaryOf(const std::vector<LayerRow>& rows);

}  // namespace paracord
