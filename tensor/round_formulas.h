// Pure functions that round float32 to shorter formats and widen these again, for every device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/host_device.h"

namespace paracord::formulas {

// Rounds to a float32 whose lowest kDropped bits are zero, ties to even. A NaN stays a NaN.
template <int kDropped>
PARACORD_HD float WithoutBits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t even = (bits >> kDropped) & 1;
  const uint32_t rounded = (bits + ((1u << (kDropped - 1)) - 1) + even) & ~((1u << kDropped) - 1);
  return std::isfinite(x) ? std::bit_cast<float>(rounded) : x;
}

// Rounds to bfloat16, the upper half of the bits, ties to even. A NaN stays a NaN.
PARACORD_HD inline uint16_t Bfloat16Bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// The power of two that scales numbers of magnitude at most `largest` to below 2^15, half of
// float16's range: products of two scaled numbers, and sums of products, then stay within float32.
// 1 if `largest` is infinite or NaN.
PARACORD_HD inline float ScaleToFloat16(float largest) {
  const int exponent = static_cast<int>(std::bit_cast<uint32_t>(largest) >> 23) - 127;
  if (exponent > 127) return 1;
  const int power = exponent < -112 ? 126 : 14 - exponent;
  return std::bit_cast<float>(static_cast<uint32_t>(127 + power) << 23);
}

// Rounds to IEEE binary16, ties to even. Numbers out of range become infinite; a NaN stays a NaN.
PARACORD_HD inline uint16_t Float16Bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits & 0x80000000u;
  const uint32_t magnitude = bits ^ sign;
  uint32_t rounded = 0;
  if (magnitude > 0x7f800000u) {
    rounded = 0x7e00u;
  } else if (magnitude >= 0x47800000u) {  // 2^16
    rounded = 0x7c00u;
    // 2^-14: denormal in float16; 0.5 moves the digits to the end.
  } else if (magnitude < 0x38800000u) {
    rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {  // the exponent's bias is 15 instead of 127; rounding up may carry into it
    rounded = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign >> 16 | rounded);
}

PARACORD_HD inline float OfBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

PARACORD_HD inline float OfFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fffu;
  // Shifting the bits into float32's position leaves the value times 2^-112, also for denormals.
  const float small = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t finite = std::bit_cast<uint32_t>(small);
  const uint32_t other = 0x7f800000u | magnitude << 13;  // infinite, or a NaN
  return std::bit_cast<float>(sign | (magnitude < 0x7c00u ? finite : other));
}

}  // namespace paracord::formulas
