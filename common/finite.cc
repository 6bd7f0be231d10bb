#include "common/finite.h"

#include <bit>
#include <cstdint>

namespace paracord {

bool AllFinite(std::span<const float> values) {
  // All ones in the exponent: infinite or not a number.
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t bad = 0;
  for (const float value : values) {
    bad |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  }
  return bad == 0;
}

}  // namespace paracord
