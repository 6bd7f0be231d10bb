// Kernel bodies of normalisation. A group is a set of elements with a common mean: the elements of
// a column, or the elements of a row.
#pragma once

#include <cmath>

#include "tensor/cuda/pointer.h"
#include "tensor/ops.h"

namespace paracord::cuda {

// Computes mean and variance of each group in one pass (Welford; merged as in Chan, Golub and
// LeVeque).
struct MomentsBody {
  struct Value {
    float n = 0, mean = 0, squares = 0;
  };
  using Loaded = Bits;
  static constexpr bool kMaps = false;
  NormShape s;
  AnyIn x;
  Out mean, variance;
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD Bits Load(int64_t group, int64_t k) const {
    return x.Load(s.by_column ? k * s.columns + group : group * s.columns + k);
  }
  PARACORD_HD void Take(Bits own, Value& v) const {
    const float at = x.Of(own);
    v.n += 1;
    const float before = s.centred ? at - v.mean : at;
    if (s.centred) v.mean += before / v.n;
    v.squares += before * (at - v.mean);
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const {
    const float n = v.n + other.n, apart = s.centred ? other.mean - v.mean : 0.f;
    // Branch-free, to keep several loads in flight.
    const float share = other.n == 0 ? 0.f : other.n / n;
    v.mean += apart * share;
    v.squares += other.squares + apart * apart * (v.n * share);
    v.n = n;
  }
  PARACORD_HD void Finish(int64_t group, const Value& v) const {
    mean[group] = v.mean;
    variance[group] = v.squares / v.n;
  }
};

PARACORD_HD inline float Factor(float variance, float epsilon) {
  return 1.f / std::sqrt(variance + epsilon);
}

// The numbers by which an element is normalised.
struct NormColumn {
  float mean, factor, scale, offset;
  PARACORD_HD float Normal(float x) const { return (x - mean) * factor; }
  PARACORD_HD float Value(float x) const { return Normal(x) * scale + offset; }
  // The gradient of the ReLU's input, from the gradient dy of its output. `relu` is the ReLU's
  // upper bound; 0: there is no ReLU.
  PARACORD_HD float Before(float relu, float x, float dy) const {
    const float v = relu == 0 ? 0.f : Value(x);
    return relu == 0 || (v > 0 && v < relu) ? dy : 0.f;
  }
};

struct NormTensors {
  AnyIn x;
  In mean, variance, scale, offset;  // `scale` and `offset` may be null
  PARACORD_HD NormColumn Of(const NormShape& s, int64_t group, int64_t column) const {
    return {mean[group], Factor(variance[group], s.epsilon),
            scale == nullptr ? 1.f : static_cast<float>(scale[column]),
            offset == nullptr ? 0.f : static_cast<float>(offset[column])};
  }
};

struct NormalizeBody {
  using Loaded = Bits;
  NormShape s;
  NormTensors of;
  AnyOut y;
  PARACORD_HD Bits Load(int64_t i) const { return of.x.Load(i); }
  bool Repeats(int64_t step) const { return s.by_column && step % s.columns == 0; }
  PARACORD_HD NormColumn Of(int64_t i) const {
    const int64_t column = i % s.columns;
    return of.Of(s, s.by_column ? column : i / s.columns, column);
  }
  PARACORD_HD float Value(const NormColumn& c, Bits own) const {
    const float v = c.Value(of.x.Of(own));
    return s.relu == 0 ? v : v <= 0 ? 0.f : v > s.relu ? s.relu : v;
  }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

struct SumAndDot {
  float sum = 0, dot = 0;
};
struct XAndDy {
  Bits x, dy;
};

// Computes two sums over each column: of dy, and of dy times the normalised x.
struct NormColumnSumsBody {
  using Value = SumAndDot;
  using Loaded = XAndDy;
  static constexpr bool kMaps = false;
  NormShape s;
  NormTensors of;
  AnyIn dy;
  Out sums, dots;  // may be null
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD Loaded Load(int64_t c, int64_t r) const {
    const int64_t i = r * s.columns + c;
    return {of.x.Load(i), dy.Load(i)};
  }
  PARACORD_HD bool Repeats() const { return s.by_column; }
  PARACORD_HD NormColumn Of(int64_t c, int64_t r) const { return of.Of(s, s.by_column ? c : r, c); }
  PARACORD_HD void Take(const NormColumn& column, const Loaded& own, Value& v) const {
    const float x = of.x.Of(own.x), d = column.Before(s.relu, x, dy.Of(own.dy));
    v.sum += d;
    v.dot += d * column.Normal(x);
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const {
    v.sum += other.sum;
    v.dot += other.dot;
  }
  PARACORD_HD void Finish(int64_t c, const Value& v) const {
    if (!(sums == nullptr)) sums[c] = v.sum;
    if (!(dots == nullptr)) dots[c] = v.dot;
  }
};

// Computes dx of a normalisation by column, from the sums of NormColumnSumsBody.
struct NormColumnBackwardBody {
  using Loaded = XAndDy;
  NormShape s;
  bool constant;
  NormTensors of;
  AnyIn dy;
  In sums, dots;
  AnyOut dx;
  // A column's dx = whole * (dy - sum - (x - mean) * dot), where dy is the gradient before the
  // ReLU.
  struct Column {
    NormColumn of;
    float sum, dot, whole;
  };
  PARACORD_HD Loaded Load(int64_t i) const {
    return {constant && s.relu == 0 ? 0 : of.x.Load(i), dy.Load(i)};
  }
  bool Repeats(int64_t step) const { return step % s.columns == 0; }
  PARACORD_HD Column Of(int64_t i) const {
    const int64_t c = i % s.columns;
    const NormColumn column = of.Of(s, c, c);
    const float n = static_cast<float>(s.rows), whole = column.factor * column.scale;
    if (constant) return {column, 0, 0, whole};
    return {column, sums[c] / n, dots[c] * column.factor / n, whole};
  }
  PARACORD_HD float Value(const Column& c, const Loaded& own) const {
    const float x = of.x.Of(own.x);
    float d = c.of.Before(s.relu, x, dy.Of(own.dy));
    if (!constant) d -= c.sum + (x - c.of.mean) * c.dot;
    return c.whole * d;
  }
  PARACORD_HD void Store(int64_t i, float v) const { dx.Store(i, v); }
};

// Computes dx of a normalisation by row: first the sums of a row, then dx of the row's elements.
struct NormRowBackwardBody {
  using Value = SumAndDot;
  static constexpr bool kMaps = true;
  NormShape s;
  bool constant;
  NormTensors of;
  In dy;
  Out dx;
  PARACORD_HD float Scaled(int64_t r, int64_t c) const {
    const float d = dy[r * s.columns + c];
    return of.scale == nullptr ? d : d * of.scale[c];
  }
  PARACORD_HD float Normal(int64_t r, int64_t c) const {
    return (of.x[r * s.columns + c] - of.mean[r]) * Factor(of.variance[r], s.epsilon);
  }
  PARACORD_HD Value Start(int64_t) const { return {}; }
  PARACORD_HD void Add(int64_t r, int64_t c, Value& v) const {
    if (constant) return;
    const float d = Scaled(r, c);
    v.sum += d;
    v.dot += d * Normal(r, c);
  }
  PARACORD_HD void Merge(Value& v, const Value& other) const {
    v.sum += other.sum;
    v.dot += other.dot;
  }
  PARACORD_HD void Finish(int64_t, const Value&) const {}
  PARACORD_HD void Map(int64_t r, int64_t c, const Value& v) const {
    const float n = static_cast<float>(s.columns), sum = s.centred ? v.sum : 0.f;
    const float through = constant ? 0.f : (sum + Normal(r, c) * v.dot) / n;
    dx[r * s.columns + c] = Factor(of.variance[r], s.epsilon) * (Scaled(r, c) - through);
  }
};

}  // namespace paracord::cuda
