// How an average over a window is summed, alike on both devices. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/ops.h"

namespace paracord {

// Of how many pixels a large window has sums of its own, which are then added up: one by one, each
// pixel would be rounded by as much as the sum of all. A small window is one part.
inline int64_t PoolPart(const PoolShape& s) {
  constexpr double kLarge = 1024;
  const double pixels = static_cast<double>(s.height.size) * static_cast<double>(s.width.size);
  if (s.max || pixels < kLarge) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::sqrt(pixels));
}

}  // namespace paracord
