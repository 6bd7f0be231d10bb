// exp, tanh and the normal distribution of float32 without branches or calls, so that the compiler
// can vectorise loops over them. Errors are within 3 units in the last place; for the distribution
// 6, and 20 in its tail, where the square in the exponent is rounded
// (tests/tensor/vector_math_test.cc). NaN and infinity are handled. A GPU uses the CUDA toolkit's
// functions instead. The polynomials are minimax fits (Lawson's iteration) to the functions in
// double precision.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/host_device.h"

namespace paracord::formulas {

// 2^n, for an n from -126 to 127 whose two's complement is passed.
inline float PowerOfTwo(uint32_t n) { return std::bit_cast<float>((n + 127U) << 23); }

PARACORD_HD inline float ExpOf(float x) {
#ifdef __CUDA_ARCH__
  return expf(x);
#else
  // exp(x) = 2^n exp(r), and exp(r) = 1 + r + r^2 q(r). Beyond the bounds exp(x) is 0 or infinite.
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it rounds a small number
  x = x > 89.5f ? 89.5f : x;
  x = x < -104.f ? -104.f : x;
  const float rounded = x * 1.44269504f + kRound;
  const float whole = rounded - kRound;
  const uint32_t n = std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(kRound);
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // log(2) in two parts
  float q = 1.3813142e-3f;
  q = q * r + 8.3694188e-3f;
  q = q * r + 4.1668456e-2f;
  q = q * r + 1.6666515e-1f;
  q = q * r + 4.9999994e-1f;
  // The power is applied in two factors, because 2^n itself may overflow where the result does not.
  const auto half = static_cast<uint32_t>(static_cast<int32_t>(n) >> 1);
  return (1.f + (r + r * r * q)) * PowerOfTwo(half) * PowerOfTwo(n - half);
#endif
}

PARACORD_HD inline float TanhOf(float x) {
#ifdef __CUDA_ARCH__
  return tanhf(x);
#else
  const float size = std::abs(x), z = x * x;
  float p = -5.6701070e-3f;
  p = p * z + 2.0610133e-2f;
  p = p * z - 5.3731639e-2f;
  p = p * z + 1.3331357e-1f;
  p = p * z - 3.3333281e-1f;
  const float small = x * (1.f + z * p);
  const float large = 1.f - 2.f / (ExpOf(2.f * size) + 1.f);
  return size < 0.625f ? small : std::copysign(large, x);
#endif
}

// The standard normal distribution at x: the probability of a smaller number, and the density.
struct Normal {
  float below, density;
};
PARACORD_HD inline Normal NormalOf(float x) {
  constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
  const float bell = ExpOf(-0.5f * x * x);
#ifdef __CUDA_ARCH__
  return {normcdff(x), kInverseSqrtTwoPi * bell};
#else
  // The probability of a number below -t is bell(t) times a ratio that falls slowly with t.
  const float size = std::abs(x), t = size > 10.f ? 10.f : size;
  float p = 3.68583621e-3f;
  p = p * t + 3.76826115e-2f;
  p = p * t + 1.74388364e-1f;
  p = p * t + 4.2618227e-1f;
  p = p * t + 0.5f;
  float q = 9.23876092e-3f;
  q = q * t + 9.44679379e-2f;
  q = q * t + 4.46134001e-1f;
  q = q * t + 1.16548276f;
  q = q * t + 1.65024924f;
  q = q * t + 1.f;
  const float tail = bell * (p / q);
  return {x > 0.f ? 1.f - tail : tail, kInverseSqrtTwoPi * bell};
#endif
}

}  // namespace paracord::formulas
