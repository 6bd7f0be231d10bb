// Activations. Formulas are those of keras/src/activations and keras/src/backend/*/nn.py.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "worker/ops/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

constexpr float kSeluAlpha = 1.6732632423543772f;
constexpr float kSeluScale = 1.0507009873554805f;
constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kSqrtTwoOverPi = 0.79788456080286536f;
constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
constexpr float kGeluCubic = 0.044715f;

float SigmoidOf(float x) { return 1.f / (1.f + std::exp(-x)); }

// Each has Value(x, p) and Slope(x, y, p), the derivative where y is the value at x.
struct Relu {
  static constexpr auto kKind = ActivationKind::kRelu;
  static float Value(float x, const Activation&) { return x <= 0 ? 0.f : x; }  // keeps a NaN
  static float Slope(float, float y, const Activation&) { return y > 0 ? 1.f : 0.f; }
};
struct LeakyRelu {
  static constexpr auto kKind = ActivationKind::kLeakyRelu;
  static float Value(float x, const Activation& p) { return x > 0 ? x : p.alpha * x; }
  static float Slope(float x, float, const Activation& p) { return x > 0 ? 1.f : p.alpha; }
};
struct Elu {
  static constexpr auto kKind = ActivationKind::kElu;
  static float Value(float x, const Activation& p) { return x > 0 ? x : p.alpha * std::expm1(x); }
  static float Slope(float x, float y, const Activation& p) { return x > 0 ? 1.f : y + p.alpha; }
};
struct Selu {
  static constexpr auto kKind = ActivationKind::kSelu;
  static float Value(float x, const Activation&) {
    return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x));
  }
  static float Slope(float x, float y, const Activation&) {
    return x > 0 ? kSeluScale : y + kSeluScale * kSeluAlpha;
  }
};
struct Sigmoid {
  static constexpr auto kKind = ActivationKind::kSigmoid;
  static float Value(float x, const Activation&) { return SigmoidOf(x); }
  static float Slope(float, float y, const Activation&) { return y * (1.f - y); }
};
struct HardSigmoid {
  static constexpr auto kKind = ActivationKind::kHardSigmoid;
  static float Value(float x, const Activation& p) {
    return std::min(std::max(p.alpha * x + 0.5f, 0.f), 1.f);
  }
  static float Slope(float, float y, const Activation& p) { return y > 0 && y < 1 ? p.alpha : 0.f; }
};
struct Tanh {
  static constexpr auto kKind = ActivationKind::kTanh;
  static float Value(float x, const Activation&) { return std::tanh(x); }
  static float Slope(float, float y, const Activation&) { return 1.f - y * y; }
};
struct Softplus {
  static constexpr auto kKind = ActivationKind::kSoftplus;
  static float Value(float x, const Activation&) {
    return std::max(x, 0.f) + std::log1p(std::exp(-std::abs(x)));
  }
  static float Slope(float x, float, const Activation&) { return SigmoidOf(x); }
};
struct Softsign {
  static constexpr auto kKind = ActivationKind::kSoftsign;
  static float Value(float x, const Activation&) { return x / (1.f + std::abs(x)); }
  static float Slope(float x, float, const Activation&) {
    const float d = 1.f + std::abs(x);
    return 1.f / (d * d);
  }
};
struct Exponential {
  static constexpr auto kKind = ActivationKind::kExponential;
  static float Value(float x, const Activation&) { return std::exp(x); }
  static float Slope(float, float y, const Activation&) { return y; }
};
struct Silu {
  static constexpr auto kKind = ActivationKind::kSilu;
  static float Value(float x, const Activation&) { return x * SigmoidOf(x); }
  static float Slope(float x, float y, const Activation&) {
    const float s = SigmoidOf(x);
    return s + y * (1.f - s);
  }
};
struct Gelu {
  static constexpr auto kKind = ActivationKind::kGelu;
  static float Value(float x, const Activation&) {
    return 0.5f * x * (1.f + std::erf(x * kSqrtHalf));
  }
  static float Slope(float x, float, const Activation&) {
    return 0.5f * (1.f + std::erf(x * kSqrtHalf)) + x * kInverseSqrtTwoPi * std::exp(-0.5f * x * x);
  }
};
struct GeluTanh {
  static constexpr auto kKind = ActivationKind::kGeluTanh;
  static float Inner(float x) { return kSqrtTwoOverPi * (x + kGeluCubic * x * x * x); }
  static float Value(float x, const Activation&) { return 0.5f * x * (1.f + std::tanh(Inner(x))); }
  static float Slope(float x, float, const Activation&) {
    const float t = std::tanh(Inner(x));
    return 0.5f * (1.f + t) +
           0.5f * x * (1.f - t * t) * kSqrtTwoOverPi * (1.f + 3.f * kGeluCubic * x * x);
  }
};
struct ReluGeneral {
  static constexpr auto kKind = ActivationKind::kReluGeneral;
  static float Value(float x, const Activation& p) {
    return x > p.gamma ? std::min(x, p.beta) : p.alpha * (x - p.gamma);
  }
  static float Slope(float x, float, const Activation& p) {
    return x > p.gamma ? (x < p.beta ? 1.f : 0.f) : p.alpha;
  }
};
struct Power {
  static constexpr auto kKind = ActivationKind::kPower;
  static float Value(float x, const Activation& p) {
    if (p.beta == 2) return p.alpha * x * x;
    if (p.beta == 0.5f) return p.alpha * std::sqrt(x);
    if (p.beta == -1) return p.alpha / x;
    return p.alpha * std::pow(x, p.beta);
  }
  static float Slope(float x, float, const Activation& p) {
    if (p.beta == 0) return 0.f;
    return p.alpha * p.beta * Value(x, {.alpha = 1, .beta = p.beta - 1});
  }
};
struct Clip {
  static constexpr auto kKind = ActivationKind::kClip;
  static float Value(float x, const Activation& p) {
    return std::min(std::max(x, p.alpha), p.beta);
  }
  static float Slope(float x, float, const Activation& p) {
    return x >= p.alpha && x <= p.beta ? 1.f : 0.f;
  }
};
struct Expm1 {
  static constexpr auto kKind = ActivationKind::kExpm1;
  static float Value(float x, const Activation&) { return std::expm1(x); }
  static float Slope(float, float y, const Activation&) { return y + 1.f; }
};
struct Log {
  static constexpr auto kKind = ActivationKind::kLog;
  static float Value(float x, const Activation&) { return std::log(x); }
  static float Slope(float x, float, const Activation&) { return 1.f / x; }
};
struct Log1p {
  static constexpr auto kKind = ActivationKind::kLog1p;
  static float Value(float x, const Activation&) { return std::log1p(x); }
  static float Slope(float x, float, const Activation&) { return 1.f / (1.f + x); }
};
struct Sin {
  static constexpr auto kKind = ActivationKind::kSin;
  static float Value(float x, const Activation&) { return std::sin(x); }
  static float Slope(float x, float, const Activation&) { return std::cos(x); }
};
struct Cos {
  static constexpr auto kKind = ActivationKind::kCos;
  static float Value(float x, const Activation&) { return std::cos(x); }
  static float Slope(float x, float, const Activation&) { return -std::sin(x); }
};
struct Abs {
  static constexpr auto kKind = ActivationKind::kAbs;
  static float Value(float x, const Activation&) { return std::abs(x); }
  static float Slope(float x, float, const Activation&) {
    return x > 0 ? 1.f : (x < 0 ? -1.f : 0.f);
  }
};
struct Sign {
  static constexpr auto kKind = ActivationKind::kSign;
  static float Value(float x, const Activation&) { return x > 0 ? 1.f : (x < 0 ? -1.f : x); }
  static float Slope(float, float, const Activation&) { return 0.f; }
};
struct Celu {
  static constexpr auto kKind = ActivationKind::kCelu;
  static float Value(float x, const Activation& p) {
    return x > 0 ? x : p.alpha * std::expm1(x / p.alpha);
  }
  static float Slope(float x, float y, const Activation& p) {
    return x > 0 ? 1.f : y / p.alpha + 1.f;
  }
};
struct HardSilu {
  static constexpr auto kKind = ActivationKind::kHardSilu;
  static float Value(float x, const Activation&) {
    return x * std::min(std::max(x / 6 + 0.5f, 0.f), 1.f);
  }
  static float Slope(float x, float, const Activation&) {
    return x <= -3 ? 0.f : (x >= 3 ? 1.f : x / 3 + 0.5f);
  }
};
struct HardTanh {
  static constexpr auto kKind = ActivationKind::kHardTanh;
  static float Value(float x, const Activation&) { return std::min(std::max(x, -1.f), 1.f); }
  static float Slope(float x, float, const Activation&) { return x >= -1 && x <= 1 ? 1.f : 0.f; }
};
struct HardShrink {
  static constexpr auto kKind = ActivationKind::kHardShrink;
  static float Value(float x, const Activation& p) { return std::abs(x) > p.alpha ? x : 0.f; }
  static float Slope(float x, float, const Activation& p) {
    return std::abs(x) > p.alpha ? 1.f : 0.f;
  }
};
struct SoftShrink {
  static constexpr auto kKind = ActivationKind::kSoftShrink;
  static float Value(float x, const Activation& p) {
    return x > p.alpha ? x - p.alpha : (x < -p.alpha ? x + p.alpha : 0.f);
  }
  static float Slope(float x, float, const Activation& p) {
    return std::abs(x) > p.alpha ? 1.f : 0.f;
  }
};
struct TanhShrink {
  static constexpr auto kKind = ActivationKind::kTanhShrink;
  static float Value(float x, const Activation&) { return x - std::tanh(x); }
  static float Slope(float x, float y, const Activation&) { return (x - y) * (x - y); }
};
struct LogSigmoid {
  static constexpr auto kKind = ActivationKind::kLogSigmoid;
  static float Value(float x, const Activation& p) { return -Softplus::Value(-x, p); }
  static float Slope(float x, float, const Activation&) { return SigmoidOf(-x); }
};
struct Mish {
  static constexpr auto kKind = ActivationKind::kMish;
  static float Value(float x, const Activation& p) { return x * std::tanh(Softplus::Value(x, p)); }
  static float Slope(float x, float, const Activation& p) {
    const float t = std::tanh(Softplus::Value(x, p));
    return t + x * (1.f - t * t) * SigmoidOf(x);
  }
};
struct Squareplus {
  static constexpr auto kKind = ActivationKind::kSquareplus;
  static float Value(float x, const Activation& p) {
    return 0.5f * (x + std::sqrt(x * x + p.alpha));
  }
  static float Slope(float x, float, const Activation& p) {
    return 0.5f * (1.f + x / std::sqrt(x * x + p.alpha));
  }
};
struct SparsePlus {
  static constexpr auto kKind = ActivationKind::kSparsePlus;
  static float Value(float x, const Activation&) {
    return x <= -1 ? 0.f : (x < 1 ? 0.25f * (x + 1) * (x + 1) : x);
  }
  static float Slope(float x, float, const Activation&) {
    return x <= -1 ? 0.f : (x < 1 ? 0.5f * (x + 1) : 1.f);
  }
};
struct SparseSigmoid {
  static constexpr auto kKind = ActivationKind::kSparseSigmoid;
  static float Value(float x, const Activation&) {
    return std::min(std::max(0.5f * (x + 1), 0.f), 1.f);
  }
  static float Slope(float x, float, const Activation&) { return x > -1 && x < 1 ? 0.5f : 0.f; }
};
struct Threshold {
  static constexpr auto kKind = ActivationKind::kThreshold;
  static float Value(float x, const Activation& p) { return x > p.alpha ? x : p.beta; }
  static float Slope(float x, float, const Activation& p) { return x > p.alpha ? 1.f : 0.f; }
};
struct NotEqual {
  static constexpr auto kKind = ActivationKind::kNotEqual;
  static float Value(float x, const Activation& p) { return x != p.alpha ? 1.f : 0.f; }
  static float Slope(float, float, const Activation&) { return 0.f; }
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

// y = x - log(sum(exp(x)))
void LogSoftmax(int64_t rows, int64_t columns, const float* x, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float top = *std::max_element(x, x + columns);
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(x[c] - top);
    const float log_sum = std::log(sum);
    for (int64_t c = 0; c < columns; ++c) y[c] = x[c] - top - log_sum;
  }
}

// dx = dy - exp(y) sum(dy)
void LogSoftmaxBackward(int64_t rows, int64_t columns, const float* y, const float* dy, float* dx) {
  for (int64_t r = 0; r < rows; ++r, y += columns, dy += columns, dx += columns) {
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += dy[c];
    for (int64_t c = 0; c < columns; ++c) dx[c] = dy[c] - std::exp(y[c]) * sum;
  }
}

// Keras' sparsemax: max(x - tau, 0). Of the numbers in falling order a few at the front, `support`,
// decide; Keras takes for tau (the sum of their partial sums - 1) / support, where Martins and
// Astudillo 2016 have their sum. A model trained with Keras needs Keras'.
class SparsemaxRow {
 public:
  explicit SparsemaxRow(int64_t columns) : order_(static_cast<size_t>(columns)) {}
  void Sort(const float* x) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [x](int64_t a, int64_t b) { return x[a] > x[b]; });
    float sum = 0, sums = 0;
    support_ = 0;
    for (const int64_t c : order_) {
      sum += x[c];
      if (!(x[c] - (sum - 1) / static_cast<float>(support_ + 1) > 0)) break;
      ++support_;
      sums += sum;
    }
    tau_ = (sums - 1) / static_cast<float>(support_);
  }
  float tau() const { return tau_; }
  // Takes `d` times the gradient of tau off dx.
  void Subtract(float d, float* dx) const {
    for (size_t i = 0; i < support_; ++i) {
      dx[order_[i]] -= d * static_cast<float>(support_ - i) / static_cast<float>(support_);
    }
  }

 private:
  std::vector<int64_t> order_;
  size_t support_ = 0;
  float tau_ = 0;
};

void Sparsemax(int64_t rows, int64_t columns, const float* x, float* y) {
  SparsemaxRow row(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    row.Sort(x);
    for (int64_t c = 0; c < columns; ++c) y[c] = std::max(x[c] - row.tau(), 0.f);
  }
}

void SparsemaxBackward(int64_t rows, int64_t columns, const float* x, const float* y,
                       const float* dy, float* dx) {
  SparsemaxRow row(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns, dy += columns, dx += columns) {
    row.Sort(x);
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      dx[c] = y[c] > 0 ? dy[c] : 0.f;
      sum += dx[c];
    }
    row.Subtract(sum, dx);
  }
}

// Calls `work` with the functions of an activation that works element by element.
template <class... Functions>
struct Among {
  template <class Work>
  static void With(ActivationKind kind, const Work& work) {
    (void)((kind == Functions::kKind ? (work(Functions{}), true) : false) || ...);
  }
};
using Elementwise =
    Among<Relu, LeakyRelu, Elu, Selu, Sigmoid, HardSigmoid, Tanh, Softplus, Softsign, Exponential,
          Silu, Gelu, GeluTanh, ReluGeneral, Power, Clip, Expm1, Log, Log1p, Sin, Cos, Abs, Sign,
          Celu, HardSilu, HardTanh, HardShrink, SoftShrink, TanhShrink, LogSigmoid, Mish,
          Squareplus, SparsePlus, SparseSigmoid, Threshold, NotEqual>;

}  // namespace

void Activate(Activation activation, int64_t rows, int64_t columns, const float* x, float* y) {
  const int64_t n = rows * columns;
  switch (activation.kind) {
    case ActivationKind::kSoftmax:
      return Softmax(rows, columns, x, y);
    case ActivationKind::kLogSoftmax:
      return LogSoftmax(rows, columns, x, y);
    case ActivationKind::kSparsemax:
      return Sparsemax(rows, columns, x, y);
    case ActivationKind::kLinear:
      return Affine(n, 1.f, 0.f, x, y);
    case ActivationKind::kAffine:
      return Affine(n, activation.alpha, activation.beta, x, y);
    default:
      break;
  }
  Elementwise::With(activation.kind, [&]<class F>(F) {
    for (int64_t i = 0; i < n; ++i) y[i] = F::Value(x[i], activation);
  });
}

void ActivateBackward(Activation activation, int64_t rows, int64_t columns, const float* x,
                      const float* y, const float* dy, float* dx) {
  const int64_t n = rows * columns;
  switch (activation.kind) {
    case ActivationKind::kSoftmax:
      return SoftmaxBackward(rows, columns, y, dy, dx);
    case ActivationKind::kLogSoftmax:
      return LogSoftmaxBackward(rows, columns, y, dy, dx);
    case ActivationKind::kSparsemax:
      return SparsemaxBackward(rows, columns, x, y, dy, dx);
    case ActivationKind::kLinear:
      return Affine(n, 1.f, 0.f, dy, dx);
    case ActivationKind::kAffine:
      return Affine(n, activation.alpha, 0.f, dy, dx);
    case ActivationKind::kRelu:  // x may be null
      for (int64_t i = 0; i < n; ++i) {
        const float slope_one = dy[i];  // a load without a condition, or it is not vectorised
        dx[i] = y[i] > 0 ? slope_one : 0.f;
      }
      return;
    default:
      break;
  }
  // Activations whose slope is a function of y alone take x == null.
  if (x == nullptr) x = y;
  Elementwise::With(activation.kind, [&]<class F>(F) {
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * F::Slope(x[i], y[i], activation);
  });
}

}  // namespace paracord::cpu
