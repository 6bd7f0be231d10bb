// The kernels of optimizer.h. Memory-bound when vectorised, which needs two things: no check of
// errno behind sqrt (a flag of this file, see CMakeLists.txt), and the promise that `in` and `out`
// overlap only element by element, so that equal pointers do not stop the vectoriser. Compiled once
// for each width of vectors; all of them give the same bits.
#include <algorithm>
#include <bit>
#include <cmath>

#include "common/flush_denormals.h"
#include "common/vector_widths.h"
#include "server/optimizer.h"

#if defined(__clang__)
#define PARACORD_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define PARACORD_ELEMENTWISE _Pragma("GCC ivdep")
#endif

namespace paracord {
namespace {

// All ones in the exponent: infinite or not a number. Collected by OR, which needs no branch.
uint32_t NotFinite(float x) {
  return (std::bit_cast<uint32_t>(x) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
}

// What Keras does to every gradient and value before the rule itself.
struct Prepared {
  float clip;
  float decay;
  explicit Prepared(const UpdateScalars& scalars) : clip(scalars.clip), decay(scalars.decay) {}
  float Gradient(float g) const { return std::min(std::max(g, -clip), clip); }
  float Value(float v) const { return v - v * decay; }
};

PARACORD_KERNEL bool UpdateSgd(const UpdateScalars& scalars, const UpdateArrays& arrays) {
  const Prepared prepared(scalars);
  const float* g_in = arrays.gradient.data();
  const float* in = arrays.value_in;
  float* out = arrays.value_out;
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    const float value = prepared.Value(in[i]) - prepared.Gradient(g_in[i]) * scalars.rate;
    out[i] = value;
    bad |= NotFinite(value);
  }
  return bad == 0;
}

// m' = m * momentum - g * rate; value += m', or with Nesterov m' * momentum - g * rate.
template <bool kNesterov>
PARACORD_KERNEL bool UpdateMomentum(float momentum, const UpdateScalars& scalars,
                                    const UpdateArrays& arrays) {
  const Prepared prepared(scalars);
  const float* g_in = arrays.gradient.data();
  const float* in = arrays.value_in;
  float* out = arrays.value_out;
  const float* m_in = arrays.slots_in[0];
  float* m_out = arrays.slots_out[0];
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    const float step = prepared.Gradient(g_in[i]) * scalars.rate;
    const float m = m_in[i] * momentum - step;
    const float value = prepared.Value(in[i]) + (kNesterov ? m * momentum - step : m);
    m_out[i] = m;
    out[i] = value;
    bad |= NotFinite(value) | NotFinite(m);
  }
  return bad == 0;
}

// a' = a + g^2; value -= rate * g / sqrt(a' + epsilon).
PARACORD_KERNEL bool UpdateAdagrad(float epsilon, const UpdateScalars& scalars,
                                   const UpdateArrays& arrays) {
  const Prepared prepared(scalars);
  const float* g_in = arrays.gradient.data();
  const float* in = arrays.value_in;
  float* out = arrays.value_out;
  const float* a_in = arrays.slots_in[0];
  float* a_out = arrays.slots_out[0];
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    const float g = prepared.Gradient(g_in[i]);
    const float a = a_in[i] + g * g;
    const float value = prepared.Value(in[i]) - scalars.rate * g / std::sqrt(a + epsilon);
    a_out[i] = a;
    out[i] = value;
    bad |= NotFinite(value) | NotFinite(a);
  }
  return bad == 0;
}

// v' = rho v + (1 - rho) g^2; the step is rate * g / sqrt(v' [- average^2] + epsilon), smoothed by
// momentum if there is one.
template <bool kMomentum, bool kCentered>
PARACORD_KERNEL bool UpdateRmsprop(const Optimizer& optimizer, const UpdateScalars& scalars,
                                   const UpdateArrays& arrays) {
  const Prepared prepared(scalars);
  const float rho = static_cast<float>(optimizer.rho);
  const float rest = static_cast<float>(1 - optimizer.rho);
  const float momentum = static_cast<float>(optimizer.momentum);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  const float* g_in = arrays.gradient.data();
  const float* in = arrays.value_in;
  float* out = arrays.value_out;
  const float* v_in = arrays.slots_in[0];
  float* v_out = arrays.slots_out[0];
  const float* m_in = kMomentum ? arrays.slots_in[1] : nullptr;
  float* m_out = kMomentum ? arrays.slots_out[1] : nullptr;
  const float* a_in = kCentered ? arrays.slots_in[kMomentum ? 2 : 1] : nullptr;
  float* a_out = kCentered ? arrays.slots_out[kMomentum ? 2 : 1] : nullptr;
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    const float g = prepared.Gradient(g_in[i]);
    const float v = rho * v_in[i] + rest * g * g;
    float denominator = v + epsilon;
    if constexpr (kCentered) {
      const float a = rho * a_in[i] + rest * g;
      denominator = v - a * a + epsilon;
      a_out[i] = a;
    }
    float step = scalars.rate * g / std::sqrt(denominator);
    if constexpr (kMomentum) {
      step += momentum * m_in[i];
      m_out[i] = step;
    }
    const float value = prepared.Value(in[i]) - step;
    v_out[i] = v;
    out[i] = value;
    bad |= NotFinite(value) | NotFinite(v);
  }
  return bad == 0;
}

// m' = m + (g - m)(1 - beta_1); v' = v + (g^2 - v)(1 - beta_2);
// value -= rate * m' / (sqrt(v') + epsilon), AMSGrad with the largest v' so far.
template <bool kAmsgrad>
PARACORD_KERNEL bool UpdateAdam(const Optimizer& optimizer, const UpdateScalars& scalars,
                                const UpdateArrays& arrays) {
  const Prepared prepared(scalars);
  const float rest_1 = static_cast<float>(1 - optimizer.beta_1);
  const float rest_2 = static_cast<float>(1 - optimizer.beta_2);
  const float epsilon = static_cast<float>(optimizer.epsilon);
  const float* g_in = arrays.gradient.data();
  const float* in = arrays.value_in;
  float* out = arrays.value_out;
  const float* m_in = arrays.slots_in[0];
  float* m_out = arrays.slots_out[0];
  const float* v_in = arrays.slots_in[1];
  float* v_out = arrays.slots_out[1];
  const float* h_in = kAmsgrad ? arrays.slots_in[2] : nullptr;
  float* h_out = kAmsgrad ? arrays.slots_out[2] : nullptr;
  const size_t n = arrays.gradient.size();
  uint32_t bad = 0;
  PARACORD_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    const float g = prepared.Gradient(g_in[i]);
    const float m = m_in[i] + (g - m_in[i]) * rest_1;
    const float v = v_in[i] + (g * g - v_in[i]) * rest_2;
    float second = v;
    if constexpr (kAmsgrad) {
      second = std::max(h_in[i], v);
      h_out[i] = second;
    }
    const float value = prepared.Value(in[i]) - scalars.rate * m / (std::sqrt(second) + epsilon);
    m_out[i] = m;
    v_out[i] = v;
    out[i] = value;
    bad |= NotFinite(value) | NotFinite(m) | NotFinite(v);
  }
  return bad == 0;
}

PARACORD_KERNEL bool UpdateAny(const Optimizer& optimizer, const UpdateScalars& scalars,
                               const UpdateArrays& arrays) {
  const float momentum = static_cast<float>(optimizer.momentum);
  switch (optimizer.rule) {
    case Optimizer::Rule::kSgd:
      if (momentum == 0) return UpdateSgd(scalars, arrays);
      return optimizer.nesterov ? UpdateMomentum<true>(momentum, scalars, arrays)
                                : UpdateMomentum<false>(momentum, scalars, arrays);
    case Optimizer::Rule::kAdagrad:
      return UpdateAdagrad(static_cast<float>(optimizer.epsilon), scalars, arrays);
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
  }
  return false;
}

PARACORD_WIDTHS(bool, UpdateWide,
                (const Optimizer& optimizer, const UpdateScalars& scalars,
                 const UpdateArrays& arrays),
                UpdateAny(optimizer, scalars, arrays))

}  // namespace

bool Update(const Optimizer& optimizer, const UpdateScalars& scalars, const UpdateArrays& arrays) {
  static const auto update = PICK_WIDTH(UpdateWide);
  const FlushDenormals flush;
  return update(optimizer, scalars, arrays);
}

}  // namespace paracord
