// The shape of one example's tensor: its axes without the batch's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paracord {

// Sizes of the axes, outermost first, without the batch's axis; empty for a scalar.
using Shape = std::vector<int64_t>;

// The product of the axes; 1 for a scalar.
int64_t Elements(const Shape& shape);
// The shape as Python writes it, such as "(28, 28, 1)" or "(3,)"; one of more than 64 axes is
// abbreviated.
std::string ShapeName(const Shape& shape);

}  // namespace paracord
