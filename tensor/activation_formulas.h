// Elementwise activations, for every device: pure functions. Formulas follow keras/src/activations
// and keras/src/backend/*/nn.py. Each activation has Value(x, p), where p has the parameters, and
// Slope(x, y, p), the derivative at x, where y is the value at x.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tensor/host_device.h"
#include "tensor/ops.h"
#include "tensor/vector_math.h"

namespace paracord::formulas {

constexpr float kSeluAlpha = 1.6732632423543772f;
constexpr float kSeluScale = 1.0507009873554805f;
constexpr float kSqrtTwoOverPi = 0.79788456080286536f;
constexpr float kTwoOverSqrtPi = 1.12837916709551257f;
constexpr float kGeluCubic = 0.044715f;

PARACORD_HD inline float SigmoidOf(float x) { return 1.f / (1.f + ExpOf(-x)); }

struct Relu {
  static constexpr auto kKind = ActivationKind::kRelu;
  PARACORD_HD static float Value(float x, const Activation&) {
    return x <= 0 ? 0.f : x;
  }  // keeps a NaN
  PARACORD_HD static float Slope(float, float y, const Activation&) { return y > 0 ? 1.f : 0.f; }
};
struct LeakyRelu {
  static constexpr auto kKind = ActivationKind::kLeakyRelu;
  PARACORD_HD static float Value(float x, const Activation& p) { return x > 0 ? x : p.alpha * x; }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return x > 0 ? 1.f : p.alpha;
  }
};
struct Elu {
  static constexpr auto kKind = ActivationKind::kElu;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return x > 0 ? x : p.alpha * std::expm1(x);
  }
  PARACORD_HD static float Slope(float x, float y, const Activation& p) {
    return x > 0 ? 1.f : y + p.alpha;
  }
};
struct Selu {
  static constexpr auto kKind = ActivationKind::kSelu;
  PARACORD_HD static float Value(float x, const Activation&) {
    return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x));
  }
  PARACORD_HD static float Slope(float x, float y, const Activation&) {
    return x > 0 ? kSeluScale : y + kSeluScale * kSeluAlpha;
  }
};
struct Sigmoid {
  static constexpr auto kKind = ActivationKind::kSigmoid;
  PARACORD_HD static float Value(float x, const Activation&) { return SigmoidOf(x); }
  PARACORD_HD static float Slope(float, float y, const Activation&) { return y * (1.f - y); }
};
struct HardSigmoid {
  static constexpr auto kKind = ActivationKind::kHardSigmoid;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return std::min(std::max(p.alpha * x + 0.5f, 0.f), 1.f);
  }
  PARACORD_HD static float Slope(float, float y, const Activation& p) {
    return y > 0 && y < 1 ? p.alpha : 0.f;
  }
};
struct Tanh {
  static constexpr auto kKind = ActivationKind::kTanh;
  PARACORD_HD static float Value(float x, const Activation&) { return TanhOf(x); }
  PARACORD_HD static float Slope(float, float y, const Activation&) { return 1.f - y * y; }
};
struct Softplus {
  static constexpr auto kKind = ActivationKind::kSoftplus;
  PARACORD_HD static float Value(float x, const Activation&) {
    return std::max(x, 0.f) + std::log1p(ExpOf(-std::abs(x)));
  }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return SigmoidOf(x); }
};
struct Softsign {
  static constexpr auto kKind = ActivationKind::kSoftsign;
  PARACORD_HD static float Value(float x, const Activation&) { return x / (1.f + std::abs(x)); }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    const float d = 1.f + std::abs(x);
    return 1.f / (d * d);
  }
};
struct Exponential {
  static constexpr auto kKind = ActivationKind::kExponential;
  PARACORD_HD static float Value(float x, const Activation&) { return ExpOf(x); }
  PARACORD_HD static float Slope(float, float y, const Activation&) { return y; }
};
struct Silu {
  static constexpr auto kKind = ActivationKind::kSilu;
  PARACORD_HD static float Value(float x, const Activation&) { return x * SigmoidOf(x); }
  PARACORD_HD static float Slope(float x, float y, const Activation&) {
    const float s = SigmoidOf(x);
    return s + y * (1.f - s);
  }
};
struct Gelu {
  static constexpr auto kKind = ActivationKind::kGelu;
  PARACORD_HD static float Value(float x, const Activation&) { return x * NormalOf(x).below; }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    const Normal normal = NormalOf(x);
    return normal.below + x * normal.density;
  }
};
struct GeluTanh {
  static constexpr auto kKind = ActivationKind::kGeluTanh;
  PARACORD_HD static float Inner(float x) { return kSqrtTwoOverPi * (x + kGeluCubic * x * x * x); }
  PARACORD_HD static float Value(float x, const Activation&) {
    return 0.5f * x * (1.f + TanhOf(Inner(x)));
  }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    const float t = TanhOf(Inner(x));
    return 0.5f * (1.f + t) +
           0.5f * x * (1.f - t * t) * kSqrtTwoOverPi * (1.f + 3.f * kGeluCubic * x * x);
  }
};
struct ReluGeneral {
  static constexpr auto kKind = ActivationKind::kReluGeneral;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return x > p.gamma ? std::min(x, p.beta) : p.alpha * (x - p.gamma);
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return x > p.gamma ? (x < p.beta ? 1.f : 0.f) : p.alpha;
  }
};
struct Power {
  static constexpr auto kKind = ActivationKind::kPower;
  PARACORD_HD static float Value(float x, const Activation& p) {
    if (p.beta == 2) return p.alpha * x * x;
    if (p.beta == 0.5f) return p.alpha * std::sqrt(x);
    if (p.beta == -1) return p.alpha / x;
    return p.alpha * std::pow(x, p.beta);
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    if (p.beta == 0) return 0.f;
    return p.alpha * p.beta * Value(x, {.alpha = 1, .beta = p.beta - 1});
  }
};
struct Clip {
  static constexpr auto kKind = ActivationKind::kClip;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return std::min(std::max(x, p.alpha), p.beta);
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return x >= p.alpha && x <= p.beta ? 1.f : 0.f;
  }
};
struct Expm1 {
  static constexpr auto kKind = ActivationKind::kExpm1;
  PARACORD_HD static float Value(float x, const Activation&) { return std::expm1(x); }
  PARACORD_HD static float Slope(float, float y, const Activation&) { return y + 1.f; }
};
struct Log {
  static constexpr auto kKind = ActivationKind::kLog;
  PARACORD_HD static float Value(float x, const Activation&) { return std::log(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return 1.f / x; }
};
struct Log1p {
  static constexpr auto kKind = ActivationKind::kLog1p;
  PARACORD_HD static float Value(float x, const Activation&) { return std::log1p(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return 1.f / (1.f + x); }
};
struct Sin {
  static constexpr auto kKind = ActivationKind::kSin;
  PARACORD_HD static float Value(float x, const Activation&) { return std::sin(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return std::cos(x); }
};
struct Cos {
  static constexpr auto kKind = ActivationKind::kCos;
  PARACORD_HD static float Value(float x, const Activation&) { return std::cos(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return -std::sin(x); }
};
struct Abs {
  static constexpr auto kKind = ActivationKind::kAbs;
  PARACORD_HD static float Value(float x, const Activation&) { return std::abs(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    return x > 0 ? 1.f : (x < 0 ? -1.f : 0.f);
  }
};
struct Sign {
  static constexpr auto kKind = ActivationKind::kSign;
  PARACORD_HD static float Value(float x, const Activation&) {
    return x > 0 ? 1.f : (x < 0 ? -1.f : x);
  }
  PARACORD_HD static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Celu {
  static constexpr auto kKind = ActivationKind::kCelu;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return x > 0 ? x : p.alpha * std::expm1(x / p.alpha);
  }
  PARACORD_HD static float Slope(float x, float y, const Activation& p) {
    return x > 0 ? 1.f : y / p.alpha + 1.f;
  }
};
struct HardSilu {
  static constexpr auto kKind = ActivationKind::kHardSilu;
  PARACORD_HD static float Value(float x, const Activation&) {
    return x * std::min(std::max(x / 6 + 0.5f, 0.f), 1.f);
  }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    return x <= -3 ? 0.f : (x >= 3 ? 1.f : x / 3 + 0.5f);
  }
};
struct HardTanh {
  static constexpr auto kKind = ActivationKind::kHardTanh;
  PARACORD_HD static float Value(float x, const Activation&) {
    return std::min(std::max(x, -1.f), 1.f);
  }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    return x >= -1 && x <= 1 ? 1.f : 0.f;
  }
};
struct HardShrink {
  static constexpr auto kKind = ActivationKind::kHardShrink;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return std::abs(x) > p.alpha ? x : 0.f;
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return std::abs(x) > p.alpha ? 1.f : 0.f;
  }
};
struct SoftShrink {
  static constexpr auto kKind = ActivationKind::kSoftShrink;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return x > p.alpha ? x - p.alpha : (x < -p.alpha ? x + p.alpha : 0.f);
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return std::abs(x) > p.alpha ? 1.f : 0.f;
  }
};
struct TanhShrink {
  static constexpr auto kKind = ActivationKind::kTanhShrink;
  PARACORD_HD static float Value(float x, const Activation&) { return x - TanhOf(x); }
  PARACORD_HD static float Slope(float x, float y, const Activation&) { return (x - y) * (x - y); }
};
struct LogSigmoid {
  static constexpr auto kKind = ActivationKind::kLogSigmoid;
  PARACORD_HD static float Value(float x, const Activation& p) { return -Softplus::Value(-x, p); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return SigmoidOf(-x); }
};
struct Mish {
  static constexpr auto kKind = ActivationKind::kMish;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return x * TanhOf(Softplus::Value(x, p));
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    const float t = TanhOf(Softplus::Value(x, p));
    return t + x * (1.f - t * t) * SigmoidOf(x);
  }
};
struct Squareplus {
  static constexpr auto kKind = ActivationKind::kSquareplus;
  PARACORD_HD static float Value(float x, const Activation& p) {
    return 0.5f * (x + std::sqrt(x * x + p.alpha));
  }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return 0.5f * (1.f + x / std::sqrt(x * x + p.alpha));
  }
};
struct SparsePlus {
  static constexpr auto kKind = ActivationKind::kSparsePlus;
  PARACORD_HD static float Value(float x, const Activation&) {
    return x <= -1 ? 0.f : (x < 1 ? 0.25f * (x + 1) * (x + 1) : x);
  }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    return x <= -1 ? 0.f : (x < 1 ? 0.5f * (x + 1) : 1.f);
  }
};
struct SparseSigmoid {
  static constexpr auto kKind = ActivationKind::kSparseSigmoid;
  PARACORD_HD static float Value(float x, const Activation&) {
    return std::min(std::max(0.5f * (x + 1), 0.f), 1.f);
  }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    return x > -1 && x < 1 ? 0.5f : 0.f;
  }
};
struct Threshold {
  static constexpr auto kKind = ActivationKind::kThreshold;
  PARACORD_HD static float Value(float x, const Activation& p) { return x > p.alpha ? x : p.beta; }
  PARACORD_HD static float Slope(float x, float, const Activation& p) {
    return x > p.alpha ? 1.f : 0.f;
  }
};
struct NotEqual {
  static constexpr auto kKind = ActivationKind::kNotEqual;
  PARACORD_HD static float Value(float x, const Activation& p) { return x != p.alpha ? 1.f : 0.f; }
  PARACORD_HD static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Floor {
  static constexpr auto kKind = ActivationKind::kFloor;
  PARACORD_HD static float Value(float x, const Activation&) { return std::floor(x); }
  PARACORD_HD static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Ceil {
  static constexpr auto kKind = ActivationKind::kCeil;
  PARACORD_HD static float Value(float x, const Activation&) { return std::ceil(x); }
  PARACORD_HD static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Round {
  static constexpr auto kKind = ActivationKind::kRound;
  PARACORD_HD static float Value(float x, const Activation&) { return std::nearbyint(x); }
  PARACORD_HD static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Truncate {
  static constexpr auto kKind = ActivationKind::kTruncate;
  PARACORD_HD static float Value(float x, const Activation&) { return std::trunc(x); }
  PARACORD_HD static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Erf {
  static constexpr auto kKind = ActivationKind::kErf;
  PARACORD_HD static float Value(float x, const Activation&) { return std::erf(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) {
    return kTwoOverSqrtPi * std::exp(-x * x);
  }
};
struct Tan {
  static constexpr auto kKind = ActivationKind::kTan;
  PARACORD_HD static float Value(float x, const Activation&) { return std::tan(x); }
  PARACORD_HD static float Slope(float, float y, const Activation&) { return 1.f + y * y; }
};
struct Arctan {
  static constexpr auto kKind = ActivationKind::kArctan;
  PARACORD_HD static float Value(float x, const Activation&) { return std::atan(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return 1.f / (1.f + x * x); }
};
struct Sinh {
  static constexpr auto kKind = ActivationKind::kSinh;
  PARACORD_HD static float Value(float x, const Activation&) { return std::sinh(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return std::cosh(x); }
};
struct Cosh {
  static constexpr auto kKind = ActivationKind::kCosh;
  PARACORD_HD static float Value(float x, const Activation&) { return std::cosh(x); }
  PARACORD_HD static float Slope(float x, float, const Activation&) { return std::sinh(x); }
};

// True for activations that Keras computes by selecting one of several expressions, and for
// activations whose slope is 0 everywhere. For them a slope of 0 gives a gradient of 0, even if dy
// is infinite or NaN; for every other activation the gradient is always slope * dy.
template <class F>
constexpr bool kSelects = false;
template <class F>
requires(std::is_same_v<F, Relu> || std::is_same_v<F, Clip> || std::is_same_v<F, HardSigmoid> ||
         std::is_same_v<F, HardTanh> || std::is_same_v<F, HardShrink> ||
         std::is_same_v<F, SoftShrink> || std::is_same_v<F, SparsePlus> ||
         std::is_same_v<F, SparseSigmoid> || std::is_same_v<F, Threshold> ||
         std::is_same_v<F, Sign> || std::is_same_v<F, NotEqual> || std::is_same_v<F, Floor> ||
         std::is_same_v<F, Ceil> || std::is_same_v<F, Round> ||
         std::is_same_v<F, Truncate>) constexpr bool kSelects<F> = true;

// The gradient with respect to x, where y is the value at x and dy the gradient with respect to y.
template <class F>
PARACORD_HD float GradientOf(float x, float y, float dy, const Activation& p) {
  const float slope = F::Slope(x, y, p), product = dy * slope;
  if constexpr (kSelects<F>) return slope == 0 ? 0.f : product;
  return product;
}

// A list of activations. For a kind that is not in the list, With does not call `work`, Value
// returns x and Gradient returns dy.
template <class... Functions>
struct Among {
  // Calls `work` with an object of the kind's struct: a loop in `work` is compiled once per kind.
  template <class Work>
  [[gnu::always_inline]] static void With(ActivationKind kind, const Work& work) {
    (void)((kind == Functions::kKind ? (work(Functions{}), true) : false) || ...);
  }
  PARACORD_HD static float Value(float x, const Activation& p) {
    float y = x;
    (void)((p.kind == Functions::kKind ? (y = Functions::Value(x, p), true) : false) || ...);
    return y;
  }
  PARACORD_HD static float Gradient(float x, float y, float dy, const Activation& p) {
    float dx = dy;
    (void)((p.kind == Functions::kKind ? (dx = GradientOf<Functions>(x, y, dy, p), true) : false) ||
           ...);
    return dx;
  }
};
using Elementwise =
    Among<Relu, LeakyRelu, Elu, Selu, Sigmoid, HardSigmoid, Tanh, Softplus, Softsign, Exponential,
          Silu, Gelu, GeluTanh, ReluGeneral, Power, Clip, Expm1, Log, Log1p, Sin, Cos, Abs, Sign,
          Celu, HardSilu, HardTanh, HardShrink, SoftShrink, TanhShrink, LogSigmoid, Mish,
          Squareplus, SparsePlus, SparseSigmoid, Threshold, NotEqual, Floor, Ceil, Round, Truncate,
          Erf, Tan, Arctan, Sinh, Cosh>;

}  // namespace paracord::formulas
