// Elementwise kernel bodies, with the CPU's formulas, and sums over an array or its rows.
#pragma once

#include "common/mix.h"
#include "tensor/activation_formulas.h"
#include "tensor/cuda/pointer.h"
#include "tensor/round_formulas.h"

namespace paracord::cuda {

PARACORD_HD inline float ValueOf(const Activation& p, float x) {
  if (p.kind == ActivationKind::kAffine) return p.alpha * x + p.beta;
  return formulas::Elementwise::Value(x, p);
}
PARACORD_HD inline float GradientOf(const Activation& p, float x, float y, float dy) {
  if (p.kind == ActivationKind::kAffine) return p.alpha * dy;
  return formulas::Elementwise::Gradient(x, y, dy, p);
}

struct ActivateBody {
  using Loaded = Bits;
  Activation p;
  AnyIn x;
  AnyOut y;
  PARACORD_HD Bits Load(int64_t i) const { return x.Load(i); }
  PARACORD_HD float Value(int64_t, Bits v) const { return ValueOf(p, x.Of(v)); }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

struct ActivateBackwardBody {
  struct Loaded {
    Bits x, y, dy;
  };
  Activation p;
  AnyIn x, y, dy;
  AnyOut dx;
  PARACORD_HD Loaded Load(int64_t i) const { return {x.Load(i), y.Load(i), dy.Load(i)}; }
  PARACORD_HD float Value(int64_t, const Loaded& v) const {
    return GradientOf(p, x.Of(v.x), y.Of(v.y), dy.Of(v.dy));
  }
  PARACORD_HD void Store(int64_t i, float v) const { dx.Store(i, v); }
};

struct AffineBody {
  using Loaded = float;
  float scale, offset;
  In x;
  Out y;
  PARACORD_HD float Load(int64_t i) const { return x[i]; }
  PARACORD_HD float Value(int64_t, float v) const { return scale * v + offset; }
  PARACORD_HD void Store(int64_t i, float v) const { y[i] = v; }
};

struct AddBody {
  struct Loaded {
    Bits x, y;
  };
  AnyIn x;
  AnyOut y;
  PARACORD_HD Loaded Load(int64_t i) const { return {x.Load(i), y.Load(i)}; }
  PARACORD_HD float Value(int64_t, const Loaded& v) const { return y.Of(v.y) + x.Of(v.x); }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

struct FillBody {
  float value;
  AnyOut y;
  PARACORD_HD void operator()(int64_t i) const { y.Store(i, value); }
};

struct ConvertBody {
  using Loaded = Bits;
  AnyIn x;
  AnyOut y;
  PARACORD_HD Bits Load(int64_t i) const { return x.Load(i); }
  PARACORD_HD float Value(int64_t, Bits v) const { return x.Of(v); }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

// Computes the largest magnitude of an array.
struct LargestBody {
  using Value = float;
  static constexpr bool kMaps = false;
  In x;
  Out largest;
  PARACORD_HD float Start(int64_t) const { return 0; }
  PARACORD_HD void Add(int64_t, int64_t k, float& v) const {
    const float at = x[k];
    Merge(v, at < 0 ? -at : at);
  }
  PARACORD_HD void Merge(float& v, float other) const { v = other > v ? other : v; }
  PARACORD_HD void Finish(int64_t, float v) const { largest[0] = v; }
};

// Scales x by the power of two at which the array's `largest` magnitude fits into float16, then by
// `down`, and rounds to float16.
struct ToFloat16Body {
  struct Loaded {
    float x, largest;
  };
  float down;
  In x, largest;
  Ptr<uint16_t> y;
  PARACORD_HD Loaded Load(int64_t i) const { return {x[i], largest[0]}; }
  PARACORD_HD uint16_t Value(int64_t, const Loaded& own) const {
    return formulas::Float16Bits(own.x * (formulas::ScaleToFloat16(own.largest) * down));
  }
  PARACORD_HD void Store(int64_t i, uint16_t v) const { y[i] = v; }
};

// Writes two factors: the one that undoes the scales of a product's operands (alpha of cuBLAS), and
// 0, by which the output's old contents are multiplied (beta).
struct ProductFactorsBody {
  float up;    // undoes the scale `down` of ToFloat16Body for both operands
  In largest;  // the largest magnitudes of the two operands
  Out factors;
  PARACORD_HD void operator()(int64_t i) const {
    const float scale = formulas::ScaleToFloat16(largest[0]);
    factors[i] = i == 0 ? up / scale / formulas::ScaleToFloat16(largest[1]) : 0;
  }
};

// Adds the bias, if any, and applies a ReLU, if wanted, after a product or convolution.
struct BiasBody {
  using Loaded = Bits;
  int64_t columns;
  bool relu;
  In bias;  // may be null
  AnyOut y;
  PARACORD_HD Bits Load(int64_t i) const { return y.Load(i); }
  bool Repeats(int64_t step) const { return step % columns == 0; }
  PARACORD_HD float Of(int64_t i) const {
    return bias == nullptr ? 0.f : static_cast<float>(bias[i % columns]);
  }
  PARACORD_HD float Value(float column, Bits own) const {
    const float v = bias == nullptr ? y.Of(own) : y.Of(own) + column;
    return relu && v <= 0 ? 0.f : v;
  }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

// Finishes a convolution in 16 bits: undoes the scales of the operands, adds the bias, applies a
// ReLU if wanted, and writes float32.
struct FromShortBody {
  using Loaded = uint16_t;
  struct Column {
    float factor, bias;
  };
  int64_t columns;
  bool relu;
  In factors;  // the factors of ProductFactorsBody if x is float16; null: x is bfloat16
  In bias;     // may be null
  Ptr<const uint16_t> x;
  Out y;
  PARACORD_HD uint16_t Load(int64_t i) const { return x[i]; }
  bool Repeats(int64_t step) const { return step % columns == 0; }
  PARACORD_HD Column Of(int64_t i) const {
    return {factors == nullptr ? 1.f : static_cast<float>(factors[0]),
            bias == nullptr ? 0.f : static_cast<float>(bias[i % columns])};
  }
  PARACORD_HD float Value(const Column& column, uint16_t own) const {
    const float number =
        factors == nullptr ? formulas::OfBfloat16(own) : formulas::OfFloat16(own) * column.factor;
    const float v = bias == nullptr ? number : number + column.bias;
    return relu && v <= 0 ? 0.f : v;
  }
  PARACORD_HD void Store(int64_t i, float v) const { y[i] = v; }
};

// splitmix64's finalizer, as in common/mix.h.
PARACORD_HD inline uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

struct DropoutBody {
  struct Loaded {
    Bits x;
    uint64_t mixed;
  };
  Ptr<const uint64_t> mixed;  // Mix64 of the key
  uint64_t dropped;           // an element is dropped if its 32-bit hash is below this
  float scale;
  int64_t first;
  AnyIn x;
  AnyOut y;
  PARACORD_HD Loaded Load(int64_t i) const { return {x.Load(i), mixed[0]}; }
  PARACORD_HD float Value(int64_t i, const Loaded& own) const {
    const uint64_t hash = MixBits(own.mixed ^ static_cast<uint64_t>(first + i)) >> 32;
    return hash < dropped ? 0.f : x.Of(own.x) * scale;
  }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

// Adds normal numbers, by the Box-Muller transform of two uniform numbers from a hash.
struct NoiseBody {
  Ptr<const uint64_t> mixed;
  float stddev;
  int64_t first;
  In x;
  Out y;
  PARACORD_HD void operator()(int64_t i) const {
    const uint64_t hash = MixBits(mixed[0] ^ static_cast<uint64_t>(first + i));
    const double u = (static_cast<double>(hash >> 32) + 0.5) / 4294967296.0;
    const double v = static_cast<double>(hash & 0xffffffff) / 4294967296.0;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
    y[i] = x[i] + stddev * static_cast<float>(normal);
  }
};

struct PenaltyGradientBody {
  float l1, l2, scale;
  In x;
  Out dx;
  PARACORD_HD void operator()(int64_t i) const {
    const float v = x[i];
    const float sign = v > 0 ? 1.f : (v < 0 ? -1.f : 0.f);
    dx[i] += scale * (l1 * sign + 2 * l2 * v);
  }
};

struct PenaltyBody {
  using Value = double;
  static constexpr bool kMaps = false;
  float l1, l2;
  In x;
  Ptr<double> sum;
  PARACORD_HD double Start(int64_t) const { return 0; }
  PARACORD_HD void Add(int64_t, int64_t k, double& value) const {
    const float v = x[k];
    value += static_cast<double>(l1) * std::abs(v) + static_cast<double>(l2) * v * v;
  }
  PARACORD_HD void Merge(double& value, double other) const { value += other; }
  PARACORD_HD void Finish(int64_t, double value) const { sum[0] = value; }
};

// Sums an array of doubles, the losses of rows.
struct SumBody {
  using Value = double;
  static constexpr bool kMaps = false;
  Ptr<const double> x;
  Ptr<double> sum;
  PARACORD_HD double Start(int64_t) const { return 0; }
  PARACORD_HD void Add(int64_t, int64_t k, double& value) const { value += x[k]; }
  PARACORD_HD void Merge(double& value, double other) const { value += other; }
  PARACORD_HD void Finish(int64_t, double value) const { sum[0] = value; }
};

struct SumRowsBody {
  using Value = float;
  using Loaded = Bits;
  static constexpr bool kMaps = false;
  int64_t columns;
  AnyIn x;
  Out sums;
  PARACORD_HD float Start(int64_t) const { return 0; }
  PARACORD_HD Bits Load(int64_t c, int64_t r) const { return x.Load(r * columns + c); }
  PARACORD_HD void Take(Bits own, float& value) const { value += x.Of(own); }
  PARACORD_HD void Merge(float& value, float other) const { value += other; }
  PARACORD_HD void Finish(int64_t c, float value) const { sums[c] = value; }
};

}  // namespace paracord::cuda
