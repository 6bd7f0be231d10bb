// Conversions between float32 and the 16-bit types in which values are sent: bfloat16 (with the
// range of float32 and 8 bits of precision) and IEEE binary16 (with 11 bits of precision, up to
// 65504). Conversions to 16 bits round to the nearest number, and between two equally near to the
// even one. A number that is too large becomes infinite; an infinity stays infinite, and NaN stays
// NaN. Results are the same bits on every processor. `in` and `out` have equal size and do not
// overlap.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

void FloatsToBf16(std::span<const float> in, std::span<uint16_t> out);
void Bf16ToFloats(std::span<const uint16_t> in, std::span<float> out);
void FloatsToF16(std::span<const float> in, std::span<uint16_t> out);
void F16ToFloats(std::span<const uint16_t> in, std::span<float> out);

// The mask of the exponent bits in each 16-bit type. Infinity and NaN have all of these bits set.
// AllFiniteHalf returns whether all values are finite; `exponent` is the mask of the values' type.
inline constexpr uint16_t kBf16Exponent = 0x7f80;
inline constexpr uint16_t kF16Exponent = 0x7c00;
bool AllFiniteHalf(std::span<const uint16_t> values, uint16_t exponent);

}  // namespace paracord
