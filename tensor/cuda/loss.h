// Kernel bodies of losses: they reduce a row to sums first, then map its elements to gradients
// (launch.h). The formulas are those of tensor/cpu/loss.cc; LossBody and LogSumBody sum in double.
#pragma once

#include <cmath>

#include "tensor/cuda/softmax.h"
#include "tensor/loss_formulas.h"

namespace paracord::cuda {

PARACORD_HD inline formulas::Point PointOf(const LossShape& s, float y, float t) {
  switch (s.kind) {
    case LossKind::kBinaryCrossentropy:
      return s.from_logits ? formulas::BinaryOfLogit::At(y, t, s)
                           : formulas::BinaryOfProbability::At(y, t, s);
    case LossKind::kMeanAbsoluteError:
      return formulas::Absolute::At(y, t, s);
    case LossKind::kMeanSquaredLogarithmicError:
      return formulas::SquaredLogarithmic::At(y, t, s);
    case LossKind::kMeanAbsolutePercentageError:
      return formulas::Percentage::At(y, t, s);
    case LossKind::kHuber:
      return formulas::Huber::At(y, t, s);
    case LossKind::kLogCosh:
      return formulas::LogCosh::At(y, t, s);
    case LossKind::kHinge:
      return formulas::Hinge::At(y, t, s);
    case LossKind::kSquaredHinge:
      return formulas::SquaredHinge::At(y, t, s);
    case LossKind::kPoisson:
      return formulas::Poisson::At(y, t, s);
    case LossKind::kBinaryFocalCrossentropy:
      return s.from_logits ? formulas::BinaryFocalOfLogit::At(y, t, s)
                           : formulas::BinaryFocalOfProbability::At(y, t, s);
    default:
      return formulas::Squared::At(y, t, s);
  }
}

PARACORD_HD inline bool OfClasses(LossKind kind) {
  return kind == LossKind::kSparseCategoricalCrossentropy ||
         kind == LossKind::kCategoricalCrossentropy;
}

// Computes 1 if all targets of a hinge loss are 0 or 1, and hence stand for -1 and 1; otherwise 0.
struct BinaryTargetsBody {
  using Value = int;
  static constexpr bool kMaps = false;
  In targets;
  Out binary;
  PARACORD_HD int Start(int64_t) const { return 1; }
  PARACORD_HD void Add(int64_t, int64_t k, int& v) const {
    const float t = targets[k];
    if (t != 0 && t != 1) v = 0;
  }
  PARACORD_HD void Merge(int& v, int other) const {
    if (other == 0) v = 0;
  }
  PARACORD_HD void Finish(int64_t, int v) const { binary[0] = static_cast<float>(v); }
};

struct LossRows {
  LossShape s;
  In outputs, targets, weights, binary, sums;  // `weights`, `binary` and `sums` may be null
  float scale;

  PARACORD_HD float Weight(int64_t r) const {
    return weights == nullptr ? 1.f : static_cast<float>(weights[r]);
  }
  PARACORD_HD float Output(int64_t r, int64_t c) const { return outputs[r * s.columns + c]; }
  // The target of class c, after a categorical loss' label smoothing or a hinge loss' conversion.
  PARACORD_HD float Target(int64_t r, int64_t c) const {
    if (s.kind == LossKind::kSparseCategoricalCrossentropy) {
      return c == static_cast<int64_t>(static_cast<float>(targets[r])) ? 1.f : 0.f;
    }
    const float t = targets[r * s.columns + c];
    if (s.kind == LossKind::kCategoricalCrossentropy ||
        s.kind == LossKind::kCategoricalFocalCrossentropy) {
      return t * (1 - s.label_smoothing) + s.label_smoothing / static_cast<float>(s.columns);
    }
    return !(binary == nullptr) && binary[0] != 0 ? 2 * t - 1 : t;
  }
  // The probability of class c in a categorical focal loss. `sums` are from ProbabilitySumBody or,
  // for logits, from LogSumBody.
  PARACORD_HD float Share(int64_t r, int64_t c) const {
    const float y = Output(r, c), sum = sums[r];
    return s.from_logits ? std::exp(y - sum) : y / sum;
  }
};

// Sums each row's probabilities. If targets are class indices, each probability is clipped before.
struct ProbabilitySumBody {
  using Value = float;
  static constexpr bool kMaps = false;
  LossRows rows;
  Out sums;
  PARACORD_HD float Start(int64_t) const { return 0; }
  PARACORD_HD void Add(int64_t r, int64_t c, float& v) const {
    if (rows.Weight(r) == 0) return;
    const bool sparse = rows.s.kind == LossKind::kSparseCategoricalCrossentropy;
    v += sparse ? formulas::ClipProbability(rows.Output(r, c)) : rows.Output(r, c);
  }
  PARACORD_HD void Merge(float& v, float other) const { v += other; }
  PARACORD_HD void Finish(int64_t r, float v) const { sums[r] = v; }
};

// Computes the logarithm of the sum of the exponentials of each row's outputs.
struct LogSumBody {
  using Value = ExpSum<double>;
  static constexpr bool kMaps = false;
  LossRows rows;
  Out sums;
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD void Add(int64_t r, int64_t c, Value& v) const {
    if (rows.Weight(r) != 0) v.Add(rows.Output(r, c));
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const { v.Merge(other); }
  PARACORD_HD void Finish(int64_t r, const Value& v) const {
    sums[r] = v.top + static_cast<float>(std::log(v.sum));
  }
};

struct LossBody {
  // A row's sums. What a, b and c are depends on the kind of loss (Add).
  struct Value {
    ExpSum<double> exp;
    double a = 0, b = 0, c = 0;
    int64_t ties = 0;  // kCategoricalHinge: the number of elements equal to exp.top
  };
  static constexpr bool kMaps = true;
  LossRows rows;
  Ptr<double> losses;
  Out d_outputs;  // may be null

  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD void Add(int64_t r, int64_t c, Value& v) const {
    if (rows.Weight(r) == 0) return;
    const float y = rows.Output(r, c), t = rows.Target(r, c);
    const auto wide_y = static_cast<double>(y), wide_t = static_cast<double>(t);
    switch (rows.s.kind) {
      case LossKind::kSparseCategoricalCrossentropy:
      case LossKind::kCategoricalCrossentropy:
        return rows.s.from_logits ? AddLogit(y, t, v) : AddProbability(r, y, t, v);
      case LossKind::kCategoricalHinge:
        v.a += wide_t * wide_y;
        Larger((1.f - t) * y, 1, v);
        return;
      case LossKind::kKlDivergence: {
        const float p = Clip(y, formulas::kEpsilon, 1.f), q = Clip(t, formulas::kEpsilon, 1.f);
        v.a += static_cast<double>(q * std::log(q / p));
        return;
      }
      case LossKind::kCategoricalFocalCrossentropy: {
        const float share = rows.Share(r, c);
        const formulas::Point point = formulas::FocalOfShare::At(share, t, rows.s);
        v.a += static_cast<double>(point.loss);
        v.b += static_cast<double>(point.slope * share);
        return;
      }
      case LossKind::kCosineSimilarity:
        v.a += wide_y * wide_y;
        v.b += wide_t * wide_t;
        v.c += wide_t * wide_y;
        return;
      default:
        v.a += static_cast<double>(PointOf(rows.s, y, t).loss);
    }
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const {
    v.a += other.a;
    v.b += other.b;
    v.c += other.c;
    if (rows.s.kind == LossKind::kCategoricalHinge) {
      Larger(other.exp.top, other.ties, v);
    } else {
      v.exp.Merge(other.exp);
    }
  }
  PARACORD_HD void Finish(int64_t r, const Value& v) const {
    const float weight = rows.Weight(r);
    losses[r] = weight == 0 ? 0 : static_cast<double>(weight) * Loss(v);
  }
  PARACORD_HD void Map(int64_t r, int64_t c, const Value& v) const {
    if (d_outputs == nullptr) return;
    const float weight = rows.Weight(r);
    d_outputs[r * rows.s.columns + c] = weight == 0 ? 0.f : rows.scale * weight * Slope(r, c, v);
  }

 private:
  PARACORD_HD static float Clip(float v, float low, float high) {
    return v < low ? low : (v > high ? high : v);
  }
  PARACORD_HD bool Sparse() const {
    return rows.s.kind == LossKind::kSparseCategoricalCrossentropy;
  }
  // Adds a logit x with target t. a: the sum of the targets; b: the sum of targets times logits.
  PARACORD_HD static void AddLogit(float x, float t, Value& v) {
    v.exp.Add(x);
    if (t == 0) return;
    v.a += static_cast<double>(t);
    v.b += static_cast<double>(t) * static_cast<double>(x);
  }
  // Adds a probability p with target t. a: the loss; b: the sum, over the classes, of the slope of
  // the class' loss times the class' share p / sum.
  PARACORD_HD void AddProbability(int64_t r, float p, float t, Value& v) const {
    if (Sparse()) {
      v.a += static_cast<double>(formulas::SparseOfProbability::At(p, t, rows.sums[r]).loss);
      return;
    }
    const float share = p / rows.sums[r], clipped = formulas::ClipProbability(share);
    if (t != 0) v.a -= static_cast<double>(t * std::log(clipped));
    if (share == clipped) v.b += static_cast<double>(-t / clipped * share);
  }
  // Merges a value that occurs `ties` times into v's largest value, exp.top, and its count, v.ties.
  PARACORD_HD static void Larger(float value, int64_t ties, Value& v) {
    if (value == v.exp.top) {
      v.ties += ties;
    } else if (value > v.exp.top) {
      v.exp.top = value;
      v.ties = ties;
    }
  }
  PARACORD_HD double SizeOf(double squares) const {
    const auto least = static_cast<double>(rows.s.least_square);
    return std::sqrt(squares > least ? squares : least);
  }
  PARACORD_HD double Loss(const Value& v) const {
    switch (rows.s.kind) {
      case LossKind::kSparseCategoricalCrossentropy:
      case LossKind::kCategoricalCrossentropy:
        if (!rows.s.from_logits) return v.a;
        return v.a * (static_cast<double>(v.exp.top) + std::log(v.exp.sum)) - v.b;
      case LossKind::kCategoricalHinge: {
        const double loss = static_cast<double>(v.exp.top) - v.a + 1;
        return loss > 0 ? loss : (loss <= 0 ? 0 : loss);
      }
      case LossKind::kKlDivergence:
      case LossKind::kCategoricalFocalCrossentropy:
        return v.a;
      case LossKind::kCosineSimilarity:
        return -v.c / (SizeOf(v.a) * SizeOf(v.b));
      default:
        return v.a / static_cast<double>(rows.s.columns);
    }
  }
  // The derivative of the row's loss with respect to output c.
  PARACORD_HD float Slope(int64_t r, int64_t c, const Value& v) const {
    const float y = rows.Output(r, c), t = rows.Target(r, c);
    switch (rows.s.kind) {
      case LossKind::kSparseCategoricalCrossentropy:
      case LossKind::kCategoricalCrossentropy: {
        if (rows.s.from_logits) {
          return std::exp(y - v.exp.top) / static_cast<float>(v.exp.sum) - t;
        }
        const float sum = rows.sums[r];
        if (Sparse()) return formulas::SparseOfProbability::At(y, t, sum).slope;
        const float share = y / sum, clipped = formulas::ClipProbability(share);
        return ((share == clipped ? -t / clipped : 0.f) - static_cast<float>(v.b)) / sum;
      }
      case LossKind::kCategoricalHinge: {
        const bool counts = static_cast<double>(v.exp.top) - v.a + 1 > 0;
        const bool largest = (1.f - t) * y == v.exp.top;
        return counts ? (largest ? (1.f - t) / static_cast<float>(v.ties) : 0.f) - t : 0.f;
      }
      case LossKind::kKlDivergence: {
        const float p = Clip(y, formulas::kEpsilon, 1.f), q = Clip(t, formulas::kEpsilon, 1.f);
        return y == p ? -q / p : 0.f;
      }
      case LossKind::kCategoricalFocalCrossentropy: {
        const float share = rows.Share(r, c);
        const float d =
            formulas::FocalOfShare::At(share, t, rows.s).slope - static_cast<float>(v.b);
        return rows.s.from_logits ? d * share : d / rows.sums[r];
      }
      case LossKind::kCosineSimilarity: {
        const double along = v.a > static_cast<double>(rows.s.least_square) ? v.c / v.a : 0;
        const double d = static_cast<double>(t) - along * static_cast<double>(y);
        return -static_cast<float>(d / (SizeOf(v.a) * SizeOf(v.b)));
      }
      default:
        return PointOf(rows.s, y, t).slope / static_cast<float>(rows.s.columns);
    }
  }
};

}  // namespace paracord::cuda
