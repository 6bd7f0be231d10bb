// Numbers rounded to the precisions of Ops::Round, for every device. Pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "worker/ops/host_device.h"
#include "worker/ops/ops.h"

namespace paracord::formulas {

// To so many bits of the fraction less, ties to even. A NaN stays one.
template <int kDropped>
PARACORD_HD float WithoutBits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t even = (bits >> kDropped) & 1;
  const uint32_t rounded = (bits + ((1u << (kDropped - 1)) - 1) + even) & ~((1u << kDropped) - 1);
  return std::isfinite(x) ? std::bit_cast<float>(rounded) : x;
}

PARACORD_HD inline float ToFloat16(float x) {
  constexpr float kLeast = 6.103515625e-05f;  // of full precision; below, multiples of 2^-24
  constexpr float kTop = 65504.f, kStep = 1.f / 16777216;
  if (std::abs(x) < kLeast) return std::nearbyint(x / kStep) * kStep;
  const float rounded = WithoutBits<13>(x);
  return std::abs(rounded) > kTop ? std::copysign(INFINITY, x) : rounded;
}

PARACORD_HD inline float Rounded(Precision precision, float x) {
  switch (precision) {
    case Precision::kFloat32:
      return x;
    case Precision::kBfloat16:
      return WithoutBits<16>(x);
    case Precision::kFloat16:
      return std::isnan(x) ? x : ToFloat16(x);
    case Precision::kFloat16Digits:
      return WithoutBits<13>(x);
  }
  return x;
}

}  // namespace paracord::formulas
