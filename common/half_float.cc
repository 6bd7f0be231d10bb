#include "common/half_float.h"

#include <bit>
#include <cstddef>

#include "common/vector_widths.h"

namespace paracord {
namespace {

constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;

PARACORD_KERNEL uint16_t ToBf16(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
  const uint32_t nan = (x >> 16) | 0x40u;  // quiet NaN; otherwise rounding could give infinity
  return static_cast<uint16_t>((x & ~kSign) > kInfinity ? nan : rounded);
}

PARACORD_KERNEL float FromBf16(uint16_t value) {
  return std::bit_cast<float>(uint32_t{value} << 16);
}

PARACORD_KERNEL uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & kSign;
  const uint32_t x = bits ^ sign;
  // The exponent's bias changes from 127 to 15. A mantissa that rounds up carries into the
  // exponent; the greatest number rounds to infinity.
  const uint32_t normal = (x + 0xc8000fffu + ((x >> 13) & 1u)) >> 13;
  // Below 2^-14: adding 0.5 leaves, at the mantissa's end, the bits of the denormal, rounded.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(x) + 0.5f) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((x >> 13) & 0x3ffu);
  const uint32_t large = x > kInfinity ? nan : 0x7c00u;
  const uint32_t finite = x < 0x38800000u ? small : normal;
  return static_cast<uint16_t>((sign >> 16) | (x >= 0x47800000u ? large : finite));
}

PARACORD_KERNEL float FromF16(uint16_t value) {
  const uint32_t sign = (uint32_t{value} & 0x8000u) << 16;
  const uint32_t x = uint32_t{value} & 0x7fffu;
  const uint32_t normal = (x << 13) + 0x38000000u;
  const uint32_t large = (x << 13) + 0x70000000u;
  const auto small =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(x)) * 0x1p-24f);
  const uint32_t finite = x < 0x400u ? small : normal;
  return std::bit_cast<float>(sign | (x >= 0x7c00u ? large : finite));
}

template <class In, class Out, class Convert>
PARACORD_KERNEL void ConvertAll(std::span<const In> in, std::span<Out> out, const Convert convert) {
  const In* __restrict from = in.data();
  Out* __restrict to = out.data();
  const size_t n = in.size();
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] = convert(from[i]);
}

#define PARACORD_INLINE __attribute__((always_inline))

PARACORD_WIDTHS(void, ToBf16Wide, (std::span<const float> in, std::span<uint16_t> out),
                ConvertAll(in, out, [](float x) PARACORD_INLINE { return ToBf16(x); }))
PARACORD_WIDTHS(void, FromBf16Wide, (std::span<const uint16_t> in, std::span<float> out),
                ConvertAll(in, out, [](uint16_t x) PARACORD_INLINE { return FromBf16(x); }))
PARACORD_WIDTHS(void, ToF16Wide, (std::span<const float> in, std::span<uint16_t> out),
                ConvertAll(in, out, [](float x) PARACORD_INLINE { return ToF16(x); }))
PARACORD_WIDTHS(void, FromF16Wide, (std::span<const uint16_t> in, std::span<float> out),
                ConvertAll(in, out, [](uint16_t x) PARACORD_INLINE { return FromF16(x); }))

PARACORD_KERNEL bool Finite(std::span<const uint16_t> values, uint16_t exponent) {
  uint16_t bad = 0;
  PARACORD_INDEPENDENT
  for (const uint16_t value : values) {
    bad |= static_cast<uint16_t>((value & exponent) == exponent ? 1 : 0);
  }
  return bad == 0;
}

PARACORD_WIDTHS(bool, FiniteWide, (std::span<const uint16_t> values, uint16_t exponent),
                Finite(values, exponent))

}  // namespace

void FloatsToBf16(std::span<const float> in, std::span<uint16_t> out) {
  static const auto convert = PICK_WIDTH(ToBf16Wide);
  convert(in, out);
}

void Bf16ToFloats(std::span<const uint16_t> in, std::span<float> out) {
  static const auto convert = PICK_WIDTH(FromBf16Wide);
  convert(in, out);
}

void FloatsToF16(std::span<const float> in, std::span<uint16_t> out) {
  static const auto convert = PICK_WIDTH(ToF16Wide);
  convert(in, out);
}

void F16ToFloats(std::span<const uint16_t> in, std::span<float> out) {
  static const auto convert = PICK_WIDTH(FromF16Wide);
  convert(in, out);
}

bool AllFiniteHalf(std::span<const uint16_t> values, uint16_t exponent) {
  static const auto finite = PICK_WIDTH(FiniteWide);
  return finite(values, exponent);
}

}  // namespace paracord
