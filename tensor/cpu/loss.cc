// The losses of loss_formulas.h over rows, with their gradients. Sums are in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/loss_formulas.h"

namespace paracord::cpu {
namespace {

using namespace formulas;  // NOLINT(google-build-using-namespace)

// Computes -sum t log softmax(x). Its gradient is softmax(x) - t, as in TensorFlow's kernel,
// whether or not the targets add up to 1.
template <class Target>
double CrossentropyOfLogits(int64_t columns, const float* x, Target t, float scale, float* dx) {
  const float top = *std::max_element(x, x + columns);
  double sum = 0, dot = 0;
  for (int64_t c = 0; c < columns; ++c) sum += std::exp(x[c] - top);
  const double log_sum = std::log(sum);
  for (int64_t c = 0; c < columns; ++c) {
    if (t[c] != 0) dot += t[c] * (x[c] - top - log_sum);
  }
  if (dx != nullptr) {
    const auto factor = static_cast<float>(1 / sum);
    for (int64_t c = 0; c < columns; ++c) {
      dx[c] = scale * (std::exp(x[c] - top) * factor - t[c]);
    }
  }
  return -dot;
}

// -sum t log clip(p / sum(p)). The clip has no gradient outside its range.
double CrossentropyOfProbabilities(int64_t columns, const float* p, SmoothTarget t, float scale,
                                   float* dp) {
  float sum = 0;
  for (int64_t c = 0; c < columns; ++c) sum += p[c];
  double loss = 0, dot = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const float share = p[c] / sum;
    const float clipped = ClipProbability(share);
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

double SparseOfProbabilities(int64_t columns, const float* p, SparseTarget t, float scale,
                             float* dp) {
  float sum = 0;
  for (int64_t c = 0; c < columns; ++c) sum += ClipProbability(p[c]);
  double loss = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const Point point = SparseOfProbability::At(p[c], t[c], sum);
    loss += static_cast<double>(point.loss);
    if (dp != nullptr) dp[c] = scale * point.slope;
  }
  return loss;
}

template <class Function>
double MeanOver(const LossShape& s, const float* y, const float* t, float target_scale,
                float target_offset, float scale, float* dy) {
  const auto columns = static_cast<float>(s.columns);
  double sum = 0;
  for (int64_t c = 0; c < s.columns; ++c) {
    const Point point = Function::At(y[c], t[c] * target_scale + target_offset, s);
    sum += static_cast<double>(point.loss);
    if (dy != nullptr) dy[c] = scale / columns * point.slope;
  }
  return sum / static_cast<double>(s.columns);
}

// Computes max(0, 1 + max((1 - t) y) - sum(t y)). Equal maxima share the gradient, as in Keras.
double CategoricalHinge(int64_t columns, const float* y, const float* t, float scale, float* dy) {
  double right = 0;
  float wrong = -std::numeric_limits<float>::infinity();
  const auto wrong_of = [&](int64_t c) { return (1.f - t[c]) * y[c]; };
  for (int64_t c = 0; c < columns; ++c) {
    right += static_cast<double>(t[c]) * static_cast<double>(y[c]);
    wrong = std::max(wrong, wrong_of(c));
  }
  float ties = 0;
  for (int64_t c = 0; c < columns; ++c) ties += wrong_of(c) == wrong ? 1.f : 0.f;
  const double loss = static_cast<double>(wrong) - right + 1;
  for (int64_t c = 0; c < columns && dy != nullptr; ++c) {
    const float share = wrong_of(c) == wrong ? (1.f - t[c]) / ties : 0.f;
    dy[c] = loss > 0 ? scale * (share - t[c]) : 0.f;
  }
  return std::max(loss, 0.0);
}

double KlDivergence(int64_t columns, const float* y, const float* t, float scale, float* dy) {
  double sum = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const float p = std::min(std::max(y[c], kEpsilon), 1.f);
    const float q = std::min(std::max(t[c], kEpsilon), 1.f);
    sum += static_cast<double>(q * std::log(q / p));
    if (dy != nullptr) dy[c] = y[c] == p ? -scale * q / p : 0.f;
  }
  return sum;
}

// -t.y / (|t| |y|)
double CosineSimilarity(const LossShape& s, const float* y, const float* t, float scale,
                        float* dy) {
  const int64_t columns = s.columns;
  double yy = 0, tt = 0, ty = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const double a = static_cast<double>(y[c]), b = static_cast<double>(t[c]);
    yy += a * a;
    tt += b * b;
    ty += a * b;
  }
  const auto least = static_cast<double>(s.least_square);
  const double y_size = std::sqrt(std::max(yy, least)), t_size = std::sqrt(std::max(tt, least));
  const double along = yy > least ? ty / yy : 0;
  for (int64_t c = 0; c < columns && dy != nullptr; ++c) {
    const double d = static_cast<double>(t[c]) - along * static_cast<double>(y[c]);
    dy[c] = -scale * static_cast<float>(d / (y_size * t_size));
  }
  return -ty / (y_size * t_size);
}

// Sums the focal losses of the classes. `y` are logits, or probabilities with any sum.
double CategoricalFocal(const LossShape& s, const float* y, const float* t, float scale,
                        float* dy) {
  const float top = s.from_logits ? *std::max_element(y, y + s.columns) : 0.f;
  const float keep = 1 - s.label_smoothing;
  const float add = s.label_smoothing / static_cast<float>(s.columns);
  const auto mass = [&](int64_t c) { return s.from_logits ? std::exp(y[c] - top) : y[c]; };
  double mass_sum = 0, loss = 0, along = 0;
  for (int64_t c = 0; c < s.columns; ++c) mass_sum += static_cast<double>(mass(c));
  const auto sum = static_cast<float>(mass_sum);
  for (int64_t c = 0; c < s.columns; ++c) {
    const float share = mass(c) / sum;
    const Point point = FocalOfShare::At(share, t[c] * keep + add, s);
    loss += static_cast<double>(point.loss);
    along += static_cast<double>(point.slope * share);
    if (dy != nullptr) dy[c] = point.slope;
  }
  for (int64_t c = 0; c < s.columns && dy != nullptr; ++c) {
    const float d = dy[c] - static_cast<float>(along);
    dy[c] = scale * (s.from_logits ? d * mass(c) : d) / sum;
  }
  return loss;
}

// Computes the loss of a row. `binary`: a hinge's targets are 0 and 1.
double RowLoss(const LossShape& s, const float* y, const float* t, bool binary, float scale,
               float* dy) {
  const auto mean = [&]<class F>(F, bool hinge) {
    const bool convert = hinge && binary;
    return MeanOver<F>(s, y, t, convert ? 2.f : 1.f, convert ? -1.f : 0.f, scale, dy);
  };
  switch (s.kind) {
    case LossKind::kSparseCategoricalCrossentropy: {
      const SparseTarget label{static_cast<int64_t>(t[0])};
      return s.from_logits ? CrossentropyOfLogits(s.columns, y, label, scale, dy)
                           : SparseOfProbabilities(s.columns, y, label, scale, dy);
    }
    case LossKind::kCategoricalCrossentropy: {
      const float each = s.label_smoothing / static_cast<float>(s.columns);
      const SmoothTarget smooth{t, 1 - s.label_smoothing, each};
      return s.from_logits ? CrossentropyOfLogits(s.columns, y, smooth, scale, dy)
                           : CrossentropyOfProbabilities(s.columns, y, smooth, scale, dy);
    }
    case LossKind::kBinaryCrossentropy:
      return s.from_logits ? mean(BinaryOfLogit{}, false) : mean(BinaryOfProbability{}, false);
    case LossKind::kMeanSquaredError:
      return mean(Squared{}, false);
    case LossKind::kMeanAbsoluteError:
      return mean(Absolute{}, false);
    case LossKind::kMeanSquaredLogarithmicError:
      return mean(SquaredLogarithmic{}, false);
    case LossKind::kMeanAbsolutePercentageError:
      return mean(Percentage{}, false);
    case LossKind::kHuber:
      return mean(Huber{}, false);
    case LossKind::kLogCosh:
      return mean(LogCosh{}, false);
    case LossKind::kHinge:
      return mean(Hinge{}, true);
    case LossKind::kSquaredHinge:
      return mean(SquaredHinge{}, true);
    case LossKind::kPoisson:
      return mean(Poisson{}, false);
    case LossKind::kBinaryFocalCrossentropy:
      return s.from_logits ? mean(BinaryFocalOfLogit{}, false)
                           : mean(BinaryFocalOfProbability{}, false);
    case LossKind::kCategoricalFocalCrossentropy:
      return CategoricalFocal(s, y, t, scale, dy);
    case LossKind::kCategoricalHinge:
      return CategoricalHinge(s.columns, y, t, scale, dy);
    case LossKind::kKlDivergence:
      return KlDivergence(s.columns, y, t, scale, dy);
    case LossKind::kCosineSimilarity:
      return CosineSimilarity(s, y, t, scale, dy);
  }
  return 0;
}

}  // namespace

double Loss(const LossShape& s, const float* outputs, const float* targets, const float* weights,
            float scale, float* d_outputs) {
  const int64_t each = s.kind == LossKind::kSparseCategoricalCrossentropy ? 1 : s.columns;
  const bool hinge = s.kind == LossKind::kHinge || s.kind == LossKind::kSquaredHinge;
  const bool binary = hinge && std::all_of(targets, targets + s.rows * each,
                                           [](float t) { return t == 0 || t == 1; });
  double sum = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    float* d_row = d_outputs == nullptr ? nullptr : d_outputs + r * s.columns;
    const float weight = weights == nullptr ? 1.f : weights[r];
    if (weight == 0) {
      if (d_row != nullptr) std::fill(d_row, d_row + s.columns, 0.f);
      continue;
    }
    sum += static_cast<double>(weight) *
           RowLoss(s, outputs + r * s.columns, targets + r * each, binary, scale * weight, d_row);
  }
  return sum;
}

}  // namespace paracord::cpu
