// A layer that replaces hidden elements, including NaN and infinities, by a number. Keras 3's merge
// layers fill inputs and outputs in this way.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

// The inputs are x (steps..., features) and a mask (steps...), which gets no gradient. Where the
// mask is 0, x is replaced by `outside`. The layer has the name of `of`.
std::unique_ptr<Layer> MakeMaskFill(const Layer& of, float outside);

}  // namespace paracord
