// Decides how an average over a window is summed; every device sums in this way.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/ops.h"

namespace paracord {

// The most pixels that are summed to a part; the sums of the parts are added afterwards. A window
// of 1024 pixels or more has several parts, because adding single pixels to a large sum would round
// each pixel to the precision of the sum. A smaller window, or a maximum, is a single part.
inline int64_t PoolPart(const PoolShape& s) {
  constexpr double kLarge = 1024;
  const double pixels = static_cast<double>(s.height.size) * static_cast<double>(s.width.size);
  if (s.max || pixels < kLarge) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::sqrt(pixels));
}

}  // namespace paracord
