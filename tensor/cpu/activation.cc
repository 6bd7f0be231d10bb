// The activations of activation_formulas.h as loops, and activations of whole rows.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/vector_widths.h"
#include "tensor/activation_formulas.h"
#include "tensor/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

using formulas::Elementwise;
using formulas::ExpOf;

PARACORD_KERNEL void Values(Activation activation, int64_t n, const float* x, float* y) {
  Elementwise::With(
      activation.kind, [&]<class F>(F) __attribute__((always_inline)) {
        PARACORD_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) y[i] = F::Value(x[i], activation);
      });
}
PARACORD_WIDTHS(void, ValuesWide, (Activation activation, int64_t n, const float* x, float* y),
                Values(activation, n, x, y))

PARACORD_KERNEL void Slopes(Activation activation, int64_t n, const float* x, const float* y,
                            const float* dy, float* dx) {
  Elementwise::With(
      activation.kind, [&]<class F>(F) __attribute__((always_inline)) {
        PARACORD_INDEPENDENT
        for (int64_t i = 0; i < n; ++i)
          dx[i] = formulas::GradientOf<F>(x[i], y[i], dy[i], activation);
      });
}
PARACORD_WIDTHS(void, SlopesWide,
                (Activation activation, int64_t n, const float* x, const float* y, const float* dy,
                 float* dx),
                Slopes(activation, n, x, y, dy, dx))

PARACORD_KERNEL void Exponentials(int64_t n, float scale, const float* x, float top, float* y) {
  PARACORD_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = ExpOf(scale * x[i] - top);
}
PARACORD_WIDTHS(void, ExponentialsWide,
                (int64_t n, float scale, const float* x, float top, float* y),
                Exponentials(n, scale, x, top, y))

void Softmax(int64_t rows, int64_t columns, const float* x, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float top = *std::max_element(x, x + columns);
    ExpOfDifference(columns, 1, x, top, y);
    const float sum = std::accumulate(y, y + columns, 0.f);
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
    for (int64_t c = 0; c < columns; ++c) sum += ExpOf(x[c] - top);
    const float log_sum = std::log(sum);
    for (int64_t c = 0; c < columns; ++c) y[c] = x[c] - top - log_sum;
  }
}

// dx = dy - exp(y) sum(dy)
void LogSoftmaxBackward(int64_t rows, int64_t columns, const float* y, const float* dy, float* dx) {
  for (int64_t r = 0; r < rows; ++r, y += columns, dy += columns, dx += columns) {
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += dy[c];
    for (int64_t c = 0; c < columns; ++c) dx[c] = dy[c] - ExpOf(y[c]) * sum;
  }
}

// Keras' sparsemax: max(x - tau, 0). In descending order, only a few leading numbers, `support`,
// determine tau. Keras has tau = (the sum of their partial sums - 1) / support, while Martins and
// Astudillo (2016) use their sum. A model trained with Keras needs Keras' formula.
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
  // Subtracts `d` times the gradient of tau from dx.
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

}  // namespace

void ExpOfDifference(int64_t n, float scale, const float* x, float top, float* y) {
  static const auto exponentials = PICK_WIDTH(ExponentialsWide);
  exponentials(n, scale, x, top, y);
}

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
  static const auto values = PICK_WIDTH(ValuesWide);
  values(activation, n, x, y);
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
        // An unconditional load lets the compiler vectorise the loop.
        const float slope_one = dy[i];
        dx[i] = y[i] > 0 ? slope_one : 0.f;
      }
      return;
    default:
      break;
  }
  // For activations whose slope depends on y alone, x may be null.
  if (x == nullptr) x = y;
  static const auto slopes = PICK_WIDTH(SlopesWide);
  slopes(activation, n, x, y, dy, dx);
}

}  // namespace paracord::cpu
