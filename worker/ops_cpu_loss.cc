// Losses with their gradients, and counts of matches. Formulas are those of keras/src/losses and
// keras/src/backend/jax/nn.py, clipping by Keras' epsilon included. Sums are in double.
#include <algorithm>
#include <cmath>

#include "worker/ops_cpu_internal.h"

namespace paracord::cpu {
namespace {

constexpr float kEpsilon = 1e-7f;

// A row of targets that are one class index, or one number a class.
struct SparseTarget {
  int64_t label;
  float operator[](int64_t c) const { return c == label ? 1.f : 0.f; }
};

// -sum t log softmax(x); its gradient is softmax(x) sum(t) - t.
template <class Target>
double CrossentropyOfLogits(int64_t columns, const float* x, Target t, float scale, float* dx) {
  const float top = *std::max_element(x, x + columns);
  double sum = 0, weight = 0, dot = 0;
  for (int64_t c = 0; c < columns; ++c) sum += std::exp(x[c] - top);
  const double log_sum = std::log(sum);
  for (int64_t c = 0; c < columns; ++c) {
    if (t[c] == 0) continue;
    weight += t[c];
    dot += t[c] * (x[c] - top - log_sum);
  }
  if (dx != nullptr) {
    const auto factor = static_cast<float>(weight / sum);
    for (int64_t c = 0; c < columns; ++c) {
      dx[c] = scale * (std::exp(x[c] - top) * factor - t[c]);
    }
  }
  return -dot;
}

// -sum t log clip(p / sum(p)). The clip has no gradient outside its range.
template <class Target>
double CrossentropyOfProbabilities(int64_t columns, const float* p, Target t, float scale,
                                   float* dp) {
  float sum = 0;
  for (int64_t c = 0; c < columns; ++c) sum += p[c];
  double loss = 0, dot = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const float share = p[c] / sum;
    const float clipped = std::min(std::max(share, kEpsilon), 1.f - kEpsilon);
    const float slope = share == clipped ? -t[c] / clipped : 0.f;
    if (t[c] != 0) loss -= t[c] * std::log(clipped);
    dot += slope * share;
    if (dp != nullptr) dp[c] = slope;
  }
  if (dp != nullptr) {
    for (int64_t c = 0; c < columns; ++c) {
      dp[c] = scale * (dp[c] - static_cast<float>(dot)) / sum;
    }
  }
  return loss;
}

template <class Target>
double Crossentropy(const LossShape& s, const float* outputs, Target target, float scale,
                    float* d_outputs) {
  return s.from_logits ? CrossentropyOfLogits(s.columns, outputs, target, scale, d_outputs)
                       : CrossentropyOfProbabilities(s.columns, outputs, target, scale, d_outputs);
}

struct Point {
  float loss, slope;
};

Point BinaryOfLogit(float x, float t) {
  const float log_part = std::log1p(std::exp(-std::abs(x)));
  return {std::max(x, 0.f) - x * t + log_part, 1.f / (1.f + std::exp(-x)) - t};
}

Point BinaryOfProbability(float p, float t) {
  const float c = std::min(std::max(p, kEpsilon), 1.f - kEpsilon);
  const float loss = -(t * std::log(c) + (1.f - t) * std::log(1.f - c));
  return {loss, p == c ? (1.f - t) / (1.f - c) - t / c : 0.f};
}

Point Squared(float y, float t) { return {(y - t) * (y - t), 2.f * (y - t)}; }

Point Absolute(float y, float t) {
  const float d = y - t;
  return {std::abs(d), d > 0 ? 1.f : (d < 0 ? -1.f : d)};  // keeps a NaN
}

template <class Function>
double Pointwise(const LossShape& s, const float* outputs, const float* targets, float scale,
                 float* d_outputs, Function function) {
  const int64_t n = s.rows * s.columns;
  double sum = 0;
  const float each = scale / static_cast<float>(s.columns);
  for (int64_t i = 0; i < n; ++i) {
    const Point point = function(outputs[i], targets[i]);
    sum += point.loss;
    if (d_outputs != nullptr) d_outputs[i] = each * point.slope;
  }
  return sum / static_cast<double>(s.columns);
}

int64_t ArgMax(const float* row, int64_t columns) {
  return std::max_element(row, row + columns) - row;
}

}  // namespace

double Loss(const LossShape& s, const float* outputs, const float* targets, float scale,
            float* d_outputs) {
  switch (s.kind) {
    case LossKind::kBinaryCrossentropy:
      return Pointwise(s, outputs, targets, scale, d_outputs,
                       s.from_logits ? BinaryOfLogit : BinaryOfProbability);
    case LossKind::kMeanSquaredError:
      return Pointwise(s, outputs, targets, scale, d_outputs, Squared);
    case LossKind::kMeanAbsoluteError:
      return Pointwise(s, outputs, targets, scale, d_outputs, Absolute);
    case LossKind::kSparseCategoricalCrossentropy:
    case LossKind::kCategoricalCrossentropy:
      break;
  }
  const bool sparse = s.kind == LossKind::kSparseCategoricalCrossentropy;
  double sum = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    float* d_row = d_outputs == nullptr ? nullptr : d_outputs + r * s.columns;
    const float* row = outputs + r * s.columns;
    sum += sparse
               ? Crossentropy(s, row, SparseTarget{static_cast<int64_t>(targets[r])}, scale, d_row)
               : Crossentropy(s, row, targets + r * s.columns, scale, d_row);
  }
  return sum;
}

double CountMatches(MatchKind kind, int64_t rows, int64_t columns, float threshold,
                    const float* outputs, const float* targets) {
  double matches = 0;
  for (int64_t r = 0; r < rows; ++r, outputs += columns) {
    if (kind == MatchKind::kSparse) {
      matches += ArgMax(outputs, columns) == static_cast<int64_t>(targets[r]) ? 1 : 0;
    } else if (kind == MatchKind::kCategorical) {
      matches += ArgMax(outputs, columns) == ArgMax(targets + r * columns, columns) ? 1 : 0;
    } else {
      int64_t equal = 0;
      for (int64_t c = 0; c < columns; ++c) {
        equal += targets[r * columns + c] == (outputs[c] > threshold ? 1.f : 0.f) ? 1 : 0;
      }
      matches += static_cast<double>(equal) / static_cast<double>(columns);
    }
  }
  return matches;
}

}  // namespace paracord::cpu
