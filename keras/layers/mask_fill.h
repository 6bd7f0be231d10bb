// A layer that replaces the elements that a mask hides, even NaN and infinities, by a number. Keras
// 3's Multiply, Maximum and Minimum treat masked inputs and outputs in this way.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

// The layer's inputs are x (steps..., features) and a mask (steps...), which gets no gradient.
// Where the mask is 0, the output is `outside`; elsewhere it is x. The layer has the name of `of`.
std::unique_ptr<Layer> MakeMaskFill(const Layer& of, float outside);

}  // namespace paracord
