// A layer that replaces elements by a number where a mask is zero, NaN and infinities too. Keras
// 3's merge layers do that to inputs and outputs.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

// The inputs are x (steps..., features) and a mask (steps...), which has no gradient. Errors name
// the layer `of`.
std::unique_ptr<Layer> MakeMaskFill(const Layer& of, float outside);

}  // namespace paracord
