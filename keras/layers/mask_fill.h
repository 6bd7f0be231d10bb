// A layer within the graph that puts a number where a mask is zero: what Keras 3's merge
// layers do to inputs and outputs. NaN and infinities there go, too.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

// Of two inputs, x (steps..., features) and a mask (steps...), which has no gradient. The name, for
// errors, is that of `of`.
std::unique_ptr<Layer> MakeMaskFill(const Layer& of, float outside);

}  // namespace paracord
