// float32 to and from the 16-bit types that values may travel in: bfloat16 (float32's range, 8 bits
// of precision) and IEEE's binary16 (11 bits of precision, up to 65504). Rounds to nearest, ties to
// even; what is too large becomes infinite, NaN and infinity stay what they are. Plain loops,
// vectorised, the same bits on every processor. `in` and `out` have one size and do not overlap.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

void FloatsToBf16(std::span<const float> in, std::span<uint16_t> out);
void Bf16ToFloats(std::span<const uint16_t> in, std::span<float> out);
void FloatsToF16(std::span<const float> in, std::span<uint16_t> out);
void F16ToFloats(std::span<const uint16_t> in, std::span<float> out);

// `exponent`: the type's exponent bits, which are all set in what is not finite.
inline constexpr uint16_t kBf16Exponent = 0x7f80;
inline constexpr uint16_t kF16Exponent = 0x7c00;
bool AllFiniteHalf(std::span<const uint16_t> values, uint16_t exponent);

}  // namespace paracord
