// Decides how to sum an average over a window, equally on every device. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/ops.h"

namespace paracord {

// The number of pixels summed together. A large window is summed in parts, added afterwards,
// because adding single pixels to a large sum would round each pixel at the size of the sum. A
// small window, or a maximum, is a single part.
inline int64_t PoolPart(const PoolShape& s) {
  constexpr double kLarge = 1024;
  const double pixels = static_cast<double>(s.height.size) * static_cast<double>(s.width.size);
  if (s.max || pixels < kLarge) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::sqrt(pixels));
}

}  // namespace paracord
