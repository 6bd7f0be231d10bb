// float32 rounded to fewer bits, for every device. Pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "worker/ops/host_device.h"

namespace paracord::formulas {

// To so many bits of the fraction less, ties to even. A NaN stays one.
template <int kDropped>
PARACORD_HD float WithoutBits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t even = (bits >> kDropped) & 1;
  const uint32_t rounded = (bits + ((1u << (kDropped - 1)) - 1) + even) & ~((1u << kDropped) - 1);
  return std::isfinite(x) ? std::bit_cast<float>(rounded) : x;
}

// The upper half of its bits. A NaN stays one.
PARACORD_HD inline uint16_t Bfloat16Bits(float x) {
  constexpr uint32_t kQuiet = 0x40;
  const uint32_t upper = std::bit_cast<uint32_t>(WithoutBits<16>(x)) >> 16;
  return static_cast<uint16_t>(std::isnan(x) ? upper | kQuiet : upper);
}

}  // namespace paracord::formulas
