// The shape of the tensor of one example. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paracord {

// The sizes of the axes, outermost first, without the batch axis; empty for a scalar.
using Shape = std::vector<int64_t>;

// Returns the number of elements: the product of the axes, 1 for a scalar.
int64_t Elements(const Shape& shape);
// Returns the shape in Python's notation, such as "(28, 28, 1)" or "(3,)"; shortened if there are
// more than 64 axes.
std::string ShapeName(const Shape& shape);

}  // namespace paracord
