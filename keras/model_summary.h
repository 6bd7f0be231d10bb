// The table of a model's layers, printed by `paracord validate`. Pure.
#pragma once

#include <string>
#include <vector>

#include "keras/graph.h"

namespace paracord {

// Returns a heading, a line for each layer with its output's shape, its parameters and, for one
// example, multiply-adds of the forward pass and bytes of memory, and a line of totals.
std::string SummaryOf(const std::vector<LayerRow>& rows);

}  // namespace paracord
