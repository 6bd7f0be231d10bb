// Conversions between float32 and the 16-bit types in which values are sent: bfloat16 (float32's
// range, 8 bits of precision) and IEEE binary16 (11 bits of precision, up to 65504). Rounds to
// nearest even; numbers that are too large become infinite; NaN and infinity stay. Plain vectorised
// loops, bit-equal on every processor. `in` and `out` have equal size and do not overlap.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

void FloatsToBf16(std::span<const float> in, std::span<uint16_t> out);
void Bf16ToFloats(std::span<const uint16_t> in, std::span<float> out);
void FloatsToF16(std::span<const float> in, std::span<uint16_t> out);
void F16ToFloats(std::span<const uint16_t> in, std::span<float> out);

// The mask of each type's exponent bits. Infinity and NaN have all of them set. AllFiniteHalf
// returns whether all values are finite; `exponent` is the mask of their type.
inline constexpr uint16_t kBf16Exponent = 0x7f80;
inline constexpr uint16_t kF16Exponent = 0x7c00;
bool AllFiniteHalf(std::span<const uint16_t> values, uint16_t exponent);

}  // namespace paracord
