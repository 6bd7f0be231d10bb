// Kernel bodies of softmax: along rows, and over the keys that a mask shows (SoftmaxShape in
// ops.h). The formulas are those of tensor/cpu/activation.cc and softmax.cc.
#pragma once

#include <cmath>

#include "tensor/cuda/pointer.h"
#include "tensor/ops.h"

namespace paracord::cuda {

// A running sum of exp(x - top), where `top` is the largest x so far.
template <class Sum>
struct ExpSum {
  float top = -INFINITY;
  Sum sum = 0;
  PARACORD_HD void Add(float x) {
    if (x > top) {
      sum = sum * std::exp(static_cast<Sum>(top) - static_cast<Sum>(x)) + 1;
      top = x;
    } else if (x != -INFINITY) {
      sum += std::exp(static_cast<Sum>(x) - static_cast<Sum>(top));
    }
  }
  PARACORD_HD void Merge(const ExpSum& other) {
    if (other.top == -INFINITY) {
      sum += other.sum;  // `other` is empty, or has a NaN
    } else if (other.top > top) {
      sum = sum * std::exp(static_cast<Sum>(top) - static_cast<Sum>(other.top)) + other.sum;
      top = other.top;
    } else {
      sum += other.sum * std::exp(static_cast<Sum>(other.top) - static_cast<Sum>(top));
    }
  }
};

struct SoftmaxBody {
  using Value = ExpSum<float>;
  static constexpr bool kMaps = true;
  int64_t columns;
  bool log;
  In x;
  Out y;
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD void Add(int64_t r, int64_t c, Value& v) const { v.Add(x[r * columns + c]); }
  PARACORD_HD void Merge(Value& v, const Value& other) const { v.Merge(other); }
  PARACORD_HD void Finish(int64_t, const Value&) const {}
  PARACORD_HD void Map(int64_t r, int64_t c, const Value& v) const {
    const float apart = x[r * columns + c] - v.top;
    y[r * columns + c] = log ? apart - std::log(v.sum) : std::exp(apart) / v.sum;
  }
};

// dx = y (dy - sum(dy y)), or for the logarithm dx = dy - exp(y) sum(dy).
struct SoftmaxBackwardBody {
  using Value = float;
  static constexpr bool kMaps = true;
  int64_t columns;
  bool log;
  In y, dy;
  Out dx;
  PARACORD_HD float Start(int64_t) const { return 0; }
  PARACORD_HD void Add(int64_t r, int64_t c, float& v) const {
    const int64_t i = r * columns + c;
    v += log ? static_cast<float>(dy[i]) : dy[i] * y[i];
  }
  PARACORD_HD void Merge(float& v, float other) const { v += other; }
  PARACORD_HD void Finish(int64_t, float) const {}
  PARACORD_HD void Map(int64_t r, int64_t c, float v) const {
    const int64_t i = r * columns + c;
    dx[i] = log ? dy[i] - std::exp(static_cast<float>(y[i])) * v : y[i] * (dy[i] - v);
  }
};

// Keras' sparsemax (tensor/cpu/activation.cc) with a thread for each row. A thread has no memory to
// sort the row in; it finds an element's rank by comparing the element with all others.
struct SparsemaxRank {
  int64_t rank = 0;
  float sum = 0;  // the sum of the element and of all elements of a smaller rank
  PARACORD_HD bool Supports(float x) const {
    return x - (sum - 1) / static_cast<float>(rank + 1) > 0;
  }
};
PARACORD_HD inline SparsemaxRank RankOf(In x, int64_t columns, int64_t c) {
  SparsemaxRank at;
  const float own = x[c];
  at.sum = own;
  for (int64_t k = 0; k < columns; ++k) {
    const float other = x[k];
    if (!(other > own || (other == own && k < c))) continue;
    ++at.rank;
    at.sum += other;
  }
  return at;
}
PARACORD_HD inline void SparsemaxRow(int64_t columns, In x, Out y) {
  int64_t support = 0;
  float sums = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const SparsemaxRank at = RankOf(x, columns, c);
    if (!at.Supports(x[c])) continue;
    ++support;
    sums += at.sum;
  }
  const float tau = (sums - 1) / static_cast<float>(support);
  for (int64_t c = 0; c < columns; ++c) {
    const float v = x[c] - tau;
    y[c] = v > 0 ? v : 0.f;
  }
}
// dx may be the same array as dy.
PARACORD_HD inline void SparsemaxBackwardRow(int64_t columns, In x, In y, In dy, Out dx) {
  int64_t support = 0;
  float sum = 0;
  for (int64_t c = 0; c < columns; ++c) {
    if (RankOf(x, columns, c).Supports(x[c])) ++support;
    if (y[c] > 0) sum += dy[c];
  }
  const auto all = static_cast<float>(support);
  for (int64_t c = 0; c < columns; ++c) {
    const SparsemaxRank at = RankOf(x, columns, c);
    const float through =
        at.Supports(x[c]) ? sum * static_cast<float>(support - at.rank) / all : 0.f;
    const float own = dy[c];
    dx[c] = (y[c] > 0 ? own : 0.f) - through;
  }
}

struct SparsemaxBody {
  int64_t columns;
  In x;
  Out y;
  PARACORD_HD void operator()(int64_t r) const {
    SparsemaxRow(columns, x + r * columns, y + r * columns);
  }
};
struct SparsemaxBackwardBody {
  int64_t columns;
  In x, y, dy;
  Out dx;
  PARACORD_HD void operator()(int64_t r) const {
    const int64_t at = r * columns;
    SparsemaxBackwardRow(columns, x + at, y + at, dy + at, dx + at);
  }
};

// A row of scores; rows are indexed by (batch, head, query).
struct ScoreRow {
  int64_t mask = 0;   // offset of the row's mask
  int64_t count = 0;  // the first `count` keys are not in the query's future
};
PARACORD_HD inline ScoreRow ScoreRowOf(const SoftmaxShape& s, int64_t row) {
  const int64_t query = row % s.queries, batch = row / s.queries / s.heads;
  const int64_t seen = query + 1 < s.keys ? query + 1 : s.keys;
  return {(batch * s.queries + query) * s.keys, s.causal ? seen : s.keys};
}

struct MaskedSoftmaxBody {
  struct Value {
    ExpSum<float> shown, all;  // over visible keys; over all keys, for a row without a visible one
    int64_t seen = 0;
  };
  static constexpr bool kMaps = true;
  static constexpr float kMinusMuch = -1e9f;  // added by Keras 2 to a hidden score
  SoftmaxShape s;
  In mask, x;
  Out y;
  PARACORD_HD bool Sees(const ScoreRow& row, int64_t k) const {
    return k < row.count && (mask == nullptr || mask[row.mask + k] != 0);
  }
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD void Add(int64_t r, int64_t k, Value& v) const {
    const float score = s.scale * x[r * s.keys + k];
    if (Sees(ScoreRowOf(s, r), k)) {
      ++v.seen;
      v.shown.Add(score);
    }
    if (s.masked == MaskedScore::kLowered) v.all.Add(score + kMinusMuch);
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const {
    v.seen += other.seen;
    v.shown.Merge(other.shown);
    v.all.Merge(other.all);
  }
  PARACORD_HD void Finish(int64_t, const Value&) const {}
  PARACORD_HD void Map(int64_t r, int64_t k, const Value& v) const {
    const float score = s.scale * x[r * s.keys + k];
    float share = 0;
    if (v.seen > 0) {
      if (Sees(ScoreRowOf(s, r), k)) share = std::exp(score - v.shown.top) / v.shown.sum;
    } else if (s.masked == MaskedScore::kReplaced) {
      share = 1.f / static_cast<float>(s.keys);
    } else if (s.masked == MaskedScore::kLowered) {
      share = std::exp(score + kMinusMuch - v.all.top) / v.all.sum;
    }
    y[r * s.keys + k] = share;
  }
};

// dx = scale y (dy - sum(dy y)). A row without a visible key has no gradient, unless its scores
// were lowered.
struct MaskedSoftmaxBackwardBody {
  struct Value {
    float dot = 0;
    int64_t seen = 0;
  };
  static constexpr bool kMaps = true;
  SoftmaxShape s;
  In mask, y, dy;
  Out dx;
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD void Add(int64_t r, int64_t k, Value& v) const {
    const ScoreRow row = ScoreRowOf(s, r);
    if (k < row.count && (mask == nullptr || mask[row.mask + k] != 0)) ++v.seen;
    v.dot += dy[r * s.keys + k] * y[r * s.keys + k];
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const {
    v.dot += other.dot;
    v.seen += other.seen;
  }
  PARACORD_HD void Finish(int64_t, const Value&) const {}
  PARACORD_HD void Map(int64_t r, int64_t k, const Value& v) const {
    const int64_t i = r * s.keys + k;
    const bool blind = s.masked != MaskedScore::kLowered && v.seen == 0;
    dx[i] = blind ? 0.f : s.scale * y[i] * (dy[i] - v.dot);
  }
};

}  // namespace paracord::cuda
