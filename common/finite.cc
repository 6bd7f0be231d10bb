#include "common/finite.h"

#include <bit>
#include <cstdint>

#include "common/vector_widths.h"

namespace paracord {
namespace {

PARACORD_KERNEL bool Finite(std::span<const float> values) {
  // All exponent bits set: infinite or not a number.
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t bad = 0;
  PARACORD_INDEPENDENT
  for (const float value : values) {
    bad |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  }
  return bad == 0;
}

PARACORD_WIDTHS(bool, FiniteWide, (std::span<const float> values), Finite(values))

}  // namespace

bool AllFinite(std::span<const float> values) {
  static const auto finite = PICK_WIDTH(FiniteWide);
  return finite(values);
}

}  // namespace paracord
