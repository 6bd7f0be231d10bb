// Element by element. Formulas are those of keras/src/activations and keras/src/backend/*/nn.py.
#include <algorithm>
#include <cmath>

#include "common/mix.h"
#include "worker/ops_cpu_internal.h"

namespace paracord::cpu {
namespace {

constexpr float kSeluAlpha = 1.6732632423543772f;
constexpr float kSeluScale = 1.0507009873554805f;
constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kSqrtTwoOverPi = 0.79788456080286536f;
constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
constexpr float kGeluCubic = 0.044715f;

float SigmoidOf(float x) { return 1.f / (1.f + std::exp(-x)); }

// Each has Value(x, alpha) and Slope(x, y, alpha), the derivative where y is the value at x.
struct Relu {
  static float Value(float x, float) { return x <= 0 ? 0.f : x; }  // keeps a NaN
  static float Slope(float, float y, float) { return y > 0 ? 1.f : 0.f; }
};
struct LeakyRelu {
  static float Value(float x, float alpha) { return x > 0 ? x : alpha * x; }
  static float Slope(float x, float, float alpha) { return x > 0 ? 1.f : alpha; }
};
struct Elu {
  static float Value(float x, float alpha) { return x > 0 ? x : alpha * std::expm1(x); }
  static float Slope(float x, float y, float alpha) { return x > 0 ? 1.f : y + alpha; }
};
struct Selu {
  static float Value(float x, float) {
    return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x));
  }
  static float Slope(float x, float y, float) {
    return x > 0 ? kSeluScale : y + kSeluScale * kSeluAlpha;
  }
};
struct Sigmoid {
  static float Value(float x, float) { return SigmoidOf(x); }
  static float Slope(float, float y, float) { return y * (1.f - y); }
};
struct HardSigmoid {
  static float Value(float x, float alpha) {
    return std::min(std::max(alpha * x + 0.5f, 0.f), 1.f);
  }
  static float Slope(float, float y, float alpha) { return y > 0 && y < 1 ? alpha : 0.f; }
};
struct Tanh {
  static float Value(float x, float) { return std::tanh(x); }
  static float Slope(float, float y, float) { return 1.f - y * y; }
};
struct Softplus {
  static float Value(float x, float) {
    return std::max(x, 0.f) + std::log1p(std::exp(-std::abs(x)));
  }
  static float Slope(float x, float, float) { return SigmoidOf(x); }
};
struct Softsign {
  static float Value(float x, float) { return x / (1.f + std::abs(x)); }
  static float Slope(float x, float, float) {
    const float d = 1.f + std::abs(x);
    return 1.f / (d * d);
  }
};
struct Exponential {
  static float Value(float x, float) { return std::exp(x); }
  static float Slope(float, float y, float) { return y; }
};
struct Silu {
  static float Value(float x, float) { return x * SigmoidOf(x); }
  static float Slope(float x, float y, float) {
    const float s = SigmoidOf(x);
    return s + y * (1.f - s);
  }
};
struct Gelu {
  static float Value(float x, float) { return 0.5f * x * (1.f + std::erf(x * kSqrtHalf)); }
  static float Slope(float x, float, float) {
    return 0.5f * (1.f + std::erf(x * kSqrtHalf)) + x * kInverseSqrtTwoPi * std::exp(-0.5f * x * x);
  }
};
struct GeluTanh {
  static float Inner(float x) { return kSqrtTwoOverPi * (x + kGeluCubic * x * x * x); }
  static float Value(float x, float) { return 0.5f * x * (1.f + std::tanh(Inner(x))); }
  static float Slope(float x, float, float) {
    const float t = std::tanh(Inner(x));
    return 0.5f * (1.f + t) +
           0.5f * x * (1.f - t * t) * kSqrtTwoOverPi * (1.f + 3.f * kGeluCubic * x * x);
  }
};

void Softmax(int64_t rows, int64_t columns, const float* x, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float top = *std::max_element(x, x + columns);
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += y[c] = std::exp(x[c] - top);
    for (int64_t c = 0; c < columns; ++c) y[c] /= sum;
  }
}

// dx = y * (dy - sum(dy * y))
void SoftmaxBackward(int64_t rows, int64_t columns, const float* y, const float* dy, float* dx) {
  for (int64_t r = 0; r < rows; ++r, y += columns, dy += columns, dx += columns) {
    float dot = 0;
    for (int64_t c = 0; c < columns; ++c) dot += dy[c] * y[c];
    for (int64_t c = 0; c < columns; ++c) dx[c] = y[c] * (dy[c] - dot);
  }
}

// Calls `work` with the functions of an activation that works element by element.
template <class Work>
void WithFunctions(ActivationKind kind, Work&& work) {
  switch (kind) {
    case ActivationKind::kRelu:
      return work(Relu{});
    case ActivationKind::kLeakyRelu:
      return work(LeakyRelu{});
    case ActivationKind::kElu:
      return work(Elu{});
    case ActivationKind::kSelu:
      return work(Selu{});
    case ActivationKind::kSigmoid:
      return work(Sigmoid{});
    case ActivationKind::kHardSigmoid:
      return work(HardSigmoid{});
    case ActivationKind::kTanh:
      return work(Tanh{});
    case ActivationKind::kSoftplus:
      return work(Softplus{});
    case ActivationKind::kSoftsign:
      return work(Softsign{});
    case ActivationKind::kExponential:
      return work(Exponential{});
    case ActivationKind::kSilu:
      return work(Silu{});
    case ActivationKind::kGelu:
      return work(Gelu{});
    case ActivationKind::kGeluTanh:
      return work(GeluTanh{});
    case ActivationKind::kLinear:
    case ActivationKind::kSoftmax:
      return;
  }
}

}  // namespace

void Activate(Activation activation, int64_t rows, int64_t columns, const float* x, float* y) {
  const int64_t n = rows * columns;
  const float alpha = activation.alpha;
  if (activation.kind == ActivationKind::kSoftmax) return Softmax(rows, columns, x, y);
  if (activation.kind == ActivationKind::kLinear) return Affine(n, 1.f, 0.f, x, y);
  WithFunctions(activation.kind, [&]<class F>(F) {
    for (int64_t i = 0; i < n; ++i) y[i] = F::Value(x[i], alpha);
  });
}

void ActivateBackward(Activation activation, int64_t rows, int64_t columns, const float* x,
                      const float* y, const float* dy, float* dx) {
  const int64_t n = rows * columns;
  const float alpha = activation.alpha;
  switch (activation.kind) {
    case ActivationKind::kSoftmax:
      return SoftmaxBackward(rows, columns, y, dy, dx);
    case ActivationKind::kLinear:
      return Affine(n, 1.f, 0.f, dy, dx);
    case ActivationKind::kRelu:  // x may be null
      for (int64_t i = 0; i < n; ++i) {
        const float slope_one = dy[i];  // a load without a condition, or it is not vectorised
        dx[i] = y[i] > 0 ? slope_one : 0.f;
      }
      return;
    default:
      break;
  }
  WithFunctions(activation.kind, [&]<class F>(F) {
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * F::Slope(x[i], y[i], alpha);
  });
}

void Affine(int64_t n, float scale, float offset, const float* x, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = scale * x[i] + offset;
}

void Add(int64_t n, const float* x, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void SumRows(int64_t rows, int64_t columns, const float* x, float* sums) {
  std::fill(sums, sums + columns, 0.f);
  for (int64_t r = 0; r < rows; ++r, x += columns) Add(columns, x, sums);
}

void Dropout(uint64_t key, float rate, int64_t first, int64_t n, const float* x, float* y) {
  const float scale = 1.f / (1.f - rate);
  // Of 2^32 values of the hash, so many drop the element.
  const auto dropped = static_cast<uint64_t>(static_cast<double>(rate) * 4294967296.0);
  const uint64_t mixed = Mix64(key);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = Mix64(mixed ^ static_cast<uint64_t>(first + i)) >> 32;
    y[i] = hash < dropped ? 0.f : x[i] * scale;
  }
}

}  // namespace paracord::cpu
