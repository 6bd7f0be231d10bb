// The kernels of optimizer.h. Vectorised kernels are memory-bound. The vectoriser needs sqrt
// without errno (a flag for this file, see CMakeLists.txt) and the promise that `in` and `out`
// overlap only element by element. Compiled once for each vector width; all widths give the same
// bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "common/flush_denormals.h"
#include "common/vector_widths.h"
#include "store/optimizer.h"
#include "store/row_kernel.h"

// A rule is a lambda, which must be inlined into the loop of each width like everything else.
#define PARACORD_RULE __attribute__((always_inline))

namespace paracord {
namespace {

// Whether the exponent is all ones: infinite or NaN. Callers collect results by OR, without
// branches.
PARACORD_KERNEL uint32_t NotFinite(float x) {
  return (std::bit_cast<uint32_t>(x) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
}

// The push was checked, but a worker on this host can still write to its memory: a number that is
// not finite changes nothing.
PARACORD_KERNEL float Usable(float gradient) { return NotFinite(gradient) != 0 ? 0 : gradient; }

// Clips and decays like Keras does for every optimizer, then applies the rule, which returns the
// new value from gradient, value and the first kSlots slots, and updates these slots.
template <size_t kSlots, class Rule>
PARACORD_KERNEL bool ForEach(const UpdateScalars& scalars, const UpdateArrays& arrays,
                             const Rule rule) {
  const float clip = scalars.clip;
  const float decay = scalars.decay;
  const float* g_in = arrays.gradient.data();
  const float* in = arrays.value_in;
  float* out = arrays.value_out;
  const float* a_in = arrays.slots_in[0];
  const float* b_in = arrays.slots_in[1];
  const float* c_in = arrays.slots_in[2];
  float* a_out = arrays.slots_out[0];
  float* b_out = arrays.slots_out[1];
  float* c_out = arrays.slots_out[2];
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    float a = 0, b = 0, c = 0;
    if constexpr (kSlots > 0) a = a_in[i];
    if constexpr (kSlots > 1) b = b_in[i];
    if constexpr (kSlots > 2) c = c_in[i];
    const float g = std::min(std::max(Usable(g_in[i]), -clip), clip);
    const float value = rule(g, in[i] - in[i] * decay, a, b, c);
    if constexpr (kSlots > 0) a_out[i] = a;
    if constexpr (kSlots > 1) b_out[i] = b;
    if constexpr (kSlots > 2) c_out[i] = c;
    out[i] = value;
    bad |= NotFinite(value) | NotFinite(a) | NotFinite(b) | NotFinite(c);
  }
  return bad == 0;
}

// value -= rate * g.
PARACORD_KERNEL auto PlainSgd(const UpdateScalars& scalars) {
  const float rate = scalars.rate;
  return [=](float g, float v, float&, float&, float&) PARACORD_RULE { return v - g * rate; };
}

// a' = a + g^2; value -= rate * g / sqrt(a' + epsilon).
PARACORD_KERNEL auto Adagrad(const Optimizer& optimizer, const UpdateScalars& scalars) {
  const float rate = scalars.rate;
  const float epsilon = static_cast<float>(optimizer.epsilon);
  return [=](float g, float v, float& a, float&, float&) PARACORD_RULE {
    a = a + g * g;
    return v - rate * g / std::sqrt(a + epsilon);
  };
}

// m' = m * momentum - g * rate; value += m', or with Nesterov m' * momentum - g * rate.
PARACORD_KERNEL bool UpdateSgd(const Optimizer& optimizer, const UpdateScalars& scalars,
                               const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float momentum = static_cast<float>(optimizer.momentum);
  if (momentum == 0) return ForEach<0>(scalars, arrays, PlainSgd(scalars));
  if (!optimizer.nesterov) {
    return ForEach<1>(scalars, arrays,
                      [=](float g, float v, float& m, float&, float&) PARACORD_RULE {
                        m = m * momentum - g * rate;
                        return v + m;
                      });
  }
  return ForEach<1>(scalars, arrays, [=](float g, float v, float& m, float&, float&) PARACORD_RULE {
    m = m * momentum - g * rate;
    return v + (m * momentum - g * rate);
  });
}

// Row-wise EnterRow has made the new sum of squares.
PARACORD_KERNEL bool UpdateAdagrad(const Optimizer& optimizer, const UpdateScalars& scalars,
                                   const UpdateArrays& arrays) {
  if (!optimizer.row_wise) return ForEach<1>(scalars, arrays, Adagrad(optimizer, scalars));
  const float rate = scalars.rate;
  const float root = std::sqrt(*arrays.slots_in[0] + static_cast<float>(optimizer.epsilon));
  return ForEach<0>(scalars, arrays, [=](float g, float v, float&, float&, float&) PARACORD_RULE {
    return v - rate * g / root;
  });
}

// s' = rho s + (1 - rho) g^2; delta = g sqrt(d + epsilon) / sqrt(s' + epsilon);
// d' = rho d + (1 - rho) delta^2; value -= rate * delta.
PARACORD_KERNEL bool UpdateAdadelta(const Optimizer& optimizer, const UpdateScalars& scalars,
                                    const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float rho = static_cast<float>(optimizer.rho);
  const float rest = static_cast<float>(1 - optimizer.rho);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  return ForEach<2>(scalars, arrays,
                    [=](float g, float v, float& s, float& d, float&) PARACORD_RULE {
                      s = rho * s + rest * (g * g);
                      const float delta = std::sqrt(d + epsilon) * g / std::sqrt(s + epsilon);
                      d = rho * d + rest * (delta * delta);
                      return v - rate * delta;
                    });
}

// v' = rho v + (1 - rho) g^2; the step is rate * g / sqrt(v' [- average^2] + epsilon), smoothed by
// momentum if there is one.
template <bool kMomentum, bool kCentered>
PARACORD_KERNEL bool UpdateRmsprop(const Optimizer& optimizer, const UpdateScalars& scalars,
                                   const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float rho = static_cast<float>(optimizer.rho);
  const float rest = static_cast<float>(1 - optimizer.rho);
  const float momentum = static_cast<float>(optimizer.momentum);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  return ForEach<1 + kMomentum + kCentered>(
      scalars, arrays, [=](float g, float value, float& v, float& b, float& c) PARACORD_RULE {
        v = rho * v + rest * g * g;
        float denominator = v + epsilon;
        if constexpr (kCentered) {
          float& average = kMomentum ? c : b;
          average = rho * average + rest * g;
          denominator = v - average * average + epsilon;
        }
        float step = rate * g / std::sqrt(denominator);
        if constexpr (kMomentum) {
          step += momentum * b;
          b = step;
        }
        return value - step;
      });
}

// m' = m + (g - m)(1 - beta_1); v' = v + (g^2 - v)(1 - beta_2);
// value -= rate * m' / (sqrt(v') + epsilon), AMSGrad with the largest v' so far. Row-wise EnterRow
// has made v' and the largest.
template <bool kAmsgrad>
PARACORD_KERNEL bool UpdateAdam(const Optimizer& optimizer, const UpdateScalars& scalars,
                                const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float rest_1 = static_cast<float>(1 - optimizer.beta_1);
  const float rest_2 = static_cast<float>(1 - optimizer.beta_2);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  if (optimizer.row_wise) {
    const float below = std::sqrt(*arrays.slots_in[1 + kAmsgrad]) + epsilon;
    return ForEach<1>(scalars, arrays,
                      [=](float g, float value, float& m, float&, float&) PARACORD_RULE {
                        m = m + (g - m) * rest_1;
                        return value - rate * m / below;
                      });
  }
  return ForEach<2 + kAmsgrad>(
      scalars, arrays, [=](float g, float value, float& m, float& v, float& largest) PARACORD_RULE {
        m = m + (g - m) * rest_1;
        v = v + (g * g - v) * rest_2;
        if constexpr (kAmsgrad) largest = std::max(largest, v);
        return value - rate * m / (std::sqrt(kAmsgrad ? largest : v) + epsilon);
      });
}

// m as Adam's; u' = max(beta_2 u, |g|); value -= rate * m' / (u' + epsilon).
PARACORD_KERNEL bool UpdateAdamax(const Optimizer& optimizer, const UpdateScalars& scalars,
                                  const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float rest_1 = static_cast<float>(1 - optimizer.beta_1);
  const float beta_2 = static_cast<float>(optimizer.beta_2);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  return ForEach<2>(scalars, arrays,
                    [=](float g, float v, float& m, float& u, float&) PARACORD_RULE {
                      m = m + (g - m) * rest_1;
                      u = std::max(beta_2 * u, std::abs(g));
                      return v - rate * m / (u + epsilon);
                    });
}

// m and v as in Adam; the step looks ahead: m with the next step's rate, g with this step's.
PARACORD_KERNEL bool UpdateNadam(const Optimizer& optimizer, const UpdateScalars& scalars,
                                 const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float momentum_rate = scalars.momentum_rate;
  const float velocity_scale = scalars.velocity_scale;
  const float rest_1 = static_cast<float>(1 - optimizer.beta_1);
  const float rest_2 = static_cast<float>(1 - optimizer.beta_2);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  return ForEach<2>(
      scalars, arrays, [=](float g, float value, float& m, float& v, float&) PARACORD_RULE {
        m = m + (g - m) * rest_1;
        v = v + (g * g - v) * rest_2;
        return value - (momentum_rate * m + rate * g) / (std::sqrt(v * velocity_scale) + epsilon);
      });
}

// value -= rate * sign(beta_1 m + (1 - beta_1) g); m' = beta_2 m + (1 - beta_2) g.
PARACORD_KERNEL bool UpdateLion(const Optimizer& optimizer, const UpdateScalars& scalars,
                                const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float beta_1 = static_cast<float>(optimizer.beta_1);
  const float beta_2 = static_cast<float>(optimizer.beta_2);
  const float rest_1 = 1.0f - beta_1;
  const float rest_2 = 1.0f - beta_2;
  return ForEach<1>(scalars, arrays, [=](float g, float v, float& m, float&, float&) PARACORD_RULE {
    const float mixed = m * beta_1 + g * rest_1;
    m = m * beta_2 + g * rest_2;
    return v - (mixed > 0 ? rate : mixed < 0 ? -rate : 0.0f);
  });
}

// x to the power of a nonnegative number. Except for roots in double, because the last bits of powf
// differ between libraries.
template <bool kRoot>
PARACORD_KERNEL float Power(float x, float power) {
  if constexpr (kRoot) return std::sqrt(x);
  return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(power)));
}

// a' = a + g^2; linear' = linear + g + 2 shrinkage value - (a'^p - a^p) / rate * value;
// value = (clip(linear', l1) - linear') / (a'^p / rate + 2 l2), p being -learning_rate_power.
template <bool kRoot>
PARACORD_KERNEL bool UpdateFtrl(const Optimizer& optimizer, const UpdateScalars& scalars,
                                const UpdateArrays& arrays) {
  const float rate = scalars.rate;
  const float twice_l2 = scalars.twice_l2;
  const float power = static_cast<float>(-optimizer.learning_rate_power);
  const float l1 = static_cast<float>(optimizer.l1);
  const float twice_shrinkage = static_cast<float>(2 * optimizer.l2_shrinkage);
  return ForEach<2>(scalars, arrays,
                    [=](float g, float v, float& a, float& linear, float&) PARACORD_RULE {
                      const float sum = a + g * g;
                      const float now = Power<kRoot>(sum, power);
                      const float before = Power<kRoot>(a, power);
                      linear += g + twice_shrinkage * v - (now - before) / rate * v;
                      a = sum;
                      const float clipped = std::min(std::max(linear, -l1), l1);
                      return (clipped - linear) / (now / rate + twice_l2);
                    });
}

// average' = keep * average + (1 - keep) * value, over what the rule has just written.
template <bool kOverwrite>
PARACORD_KERNEL bool Average(const UpdateScalars& scalars, const UpdateArrays& arrays,
                             size_t slot) {
  const float keep = scalars.average_keep;
  const float rest = 1.0f - keep;
  const float* in = arrays.slots_in[slot];
  float* out = arrays.slots_out[slot];
  float* values = arrays.value_out;
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float average = keep * in[i] + rest * values[i];
    out[i] = average;
    if constexpr (kOverwrite) values[i] = average;
    bad |= NotFinite(average);
  }
  return bad == 0;
}

PARACORD_KERNEL bool UpdateAny(const Optimizer& optimizer, const UpdateScalars& scalars,
                               const UpdateArrays& arrays) {
  switch (optimizer.rule) {
    case Optimizer::Rule::kSgd:
      return UpdateSgd(optimizer, scalars, arrays);
    case Optimizer::Rule::kAdagrad:
      return UpdateAdagrad(optimizer, scalars, arrays);
    case Optimizer::Rule::kAdadelta:
      return UpdateAdadelta(optimizer, scalars, arrays);
    case Optimizer::Rule::kRmsprop:
      if (optimizer.momentum > 0) {
        return optimizer.centered ? UpdateRmsprop<true, true>(optimizer, scalars, arrays)
                                  : UpdateRmsprop<true, false>(optimizer, scalars, arrays);
      }
      return optimizer.centered ? UpdateRmsprop<false, true>(optimizer, scalars, arrays)
                                : UpdateRmsprop<false, false>(optimizer, scalars, arrays);
    case Optimizer::Rule::kAdam:
      return optimizer.amsgrad ? UpdateAdam<true>(optimizer, scalars, arrays)
                               : UpdateAdam<false>(optimizer, scalars, arrays);
    case Optimizer::Rule::kAdamax:
      return UpdateAdamax(optimizer, scalars, arrays);
    case Optimizer::Rule::kNadam:
      return UpdateNadam(optimizer, scalars, arrays);
    case Optimizer::Rule::kLion:
      return UpdateLion(optimizer, scalars, arrays);
    case Optimizer::Rule::kFtrl:
      return optimizer.learning_rate_power == -0.5 ? UpdateFtrl<true>(optimizer, scalars, arrays)
                                                   : UpdateFtrl<false>(optimizer, scalars, arrays);
  }
  return false;
}

// Keras' NonNeg, which the average of the values does not see.
PARACORD_KERNEL void TakeNegativesAway(const UpdateArrays& arrays) {
  for (size_t i = 0; i < arrays.gradient.size(); ++i) {
    const float value = arrays.value_out[i];
    arrays.value_out[i] = value < 0 ? 0 : value;
  }
}

PARACORD_KERNEL bool UpdateAll(const Optimizer& optimizer, const UpdateScalars& scalars,
                               const UpdateArrays& arrays) {
  bool finite = UpdateAny(optimizer, scalars, arrays);
  if (optimizer.use_ema) {
    const size_t slot = optimizer.slots.size() - 1;
    finite = (scalars.overwrite ? Average<true>(scalars, arrays, slot)
                                : Average<false>(scalars, arrays, slot)) &&
             finite;
  }
  if (optimizer.non_neg) TakeNegativesAway(arrays);
  return finite;
}

// The mean square of a gradient after clipping. Eight partial sums give the same bits at every
// vector width.
float MeanSquare(std::span<const float> gradient, float clip) {
  std::array<float, 8> sums{};
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float g = std::min(std::max(Usable(gradient[i]), -clip), clip);
    sums[i % sums.size()] += g * g;
  }
  const float sum =
      ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  return sum / static_cast<float>(gradient.size());
}

// Updates rows of `elements` elements each by one rule.
template <size_t kSlots, class Rule>
PARACORD_KERNEL bool ForRows(const RowList& list, const size_t elements, const Rule rule) {
  bool finite = true;
  for (size_t r = 0; r < list.size; ++r) {
    float* const values = list.values[r];
    UpdateArrays arrays{
        .gradient = {list.gradients[r], elements}, .value_in = values, .value_out = values};
    for (size_t s = 0; s < kSlots; ++s) {
      arrays.slots_in[s] = arrays.slots_out[s] = values + (s + 1) * elements;
    }
    finite = ForEach<kSlots>(list.scalars[0], arrays, rule) && finite;
  }
  return finite;
}

template <size_t kSlots, class Rule>
PARACORD_KERNEL bool ForRowsOfUsualSizes(const RowList& list, const size_t elements,
                                         const Rule rule) {
  switch (elements) {
    case 16:
      return ForRows<kSlots>(list, 16, rule);
    case 32:
      return ForRows<kSlots>(list, 32, rule);
    case 64:
      return ForRows<kSlots>(list, 64, rule);
    default:
      return ForRows<kSlots>(list, elements, rule);
  }
}

// The rules that are exact where rows travel alone.
PARACORD_KERNEL bool UpdateList(const Optimizer& optimizer, const RowList& list, size_t elements) {
  if (optimizer.rule == Optimizer::Rule::kSgd) {
    return ForRowsOfUsualSizes<0>(list, elements, PlainSgd(list.scalars[0]));
  }
  return ForRowsOfUsualSizes<1>(list, elements, Adagrad(optimizer, list.scalars[0]));
}

PARACORD_WIDTHS(bool, UpdateListWide,
                (const Optimizer& optimizer, const RowList& list, size_t elements),
                UpdateList(optimizer, list, elements))

PARACORD_WIDTHS(bool, UpdateWide,
                (const Optimizer& optimizer, const UpdateScalars& scalars,
                 const UpdateArrays& arrays),
                UpdateAll(optimizer, scalars, arrays))

}  // namespace

bool UpdateElements(const Optimizer& optimizer, const UpdateScalars& scalars,
                    const UpdateArrays& arrays) {
  static const auto update = PICK_WIDTH(UpdateWide);
  const FlushDenormals flush;
  return update(optimizer, scalars, arrays);
}

namespace {

// Enters the mean of the squares of a row's whole gradient into the row's own numbers, by slot; the
// numbers of other slots are null. Returns false if a result is not finite.
bool EnterRow(const Optimizer& optimizer, const UpdateScalars& scalars,
              std::span<const float> gradient, std::span<float* const> numbers) {
  const float square = MeanSquare(gradient, scalars.clip);
  if (optimizer.rule == Optimizer::Rule::kAdagrad) {
    *numbers[0] += square;
    return NotFinite(*numbers[0]) == 0;
  }
  float& v = *numbers[1];
  v = v + (square - v) * static_cast<float>(1 - optimizer.beta_2);
  if (optimizer.amsgrad) *numbers[2] = std::max(*numbers[2], v);
  return NotFinite(v) == 0;
}

}  // namespace

bool UpdateRows(const Optimizer& optimizer, uint64_t row_elements, const RowList& list) {
  static const auto update = PICK_WIDTH(UpdateWide);
  static const auto update_list = PICK_WIDTH(UpdateListWide);
  const FlushDenormals flush;
  if (!list.own_scalars && !optimizer.row_wise) return update_list(optimizer, list, row_elements);
  bool finite = true;
  for (size_t r = 0; r < list.size; ++r) {
    const UpdateScalars& scalars = list.scalars[list.own_scalars ? r : 0];
    float* const values = list.values[r];
    UpdateArrays arrays{
        .gradient = {list.gradients[r], row_elements}, .value_in = values, .value_out = values};
    std::array<float*, kSlotsMax> numbers{};
    float* slot = values + row_elements;
    for (size_t s = 0; s < optimizer.slots.size(); ++s) {
      arrays.slots_in[s] = arrays.slots_out[s] = slot;
      if (optimizer.slots[s].of_rows) numbers[s] = slot;
      slot += SlotElements(optimizer.slots[s], row_elements);
    }
    if (optimizer.row_wise) {
      finite = EnterRow(optimizer, scalars, arrays.gradient, numbers) && finite;
    }
    finite = update(optimizer, scalars, arrays) && finite;
  }
  return finite;
}

std::vector<UpdateFunction> UpdatesOfAllWidths() {
#if defined(__x86_64__)
  std::vector<UpdateFunction> all = {UpdateWide128};
  if (__builtin_cpu_supports("avx2")) all.push_back(UpdateWide256);
  if (PICK_WIDTH(UpdateWide) == UpdateWide512) all.push_back(UpdateWide512);
  return all;
#else
  return {UpdateWide128};
#endif
}

}  // namespace paracord
