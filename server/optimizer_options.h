// The table of optimizers: their names, defaults, options and slots, as Keras has them, and the
// ones that cannot be had, with the reason. ParseOptimizer (server/optimizer.h) is made here; pure.
#pragma once

#include <string_view>

#include "server/optimizer.h"

namespace paracord {

// Whether one of the expressions is found in the variable's own name, or in the whole if it has a
// "/".
bool IsExcludedFromDecay(const Optimizer& optimizer, std::string_view variable);

}  // namespace paracord
