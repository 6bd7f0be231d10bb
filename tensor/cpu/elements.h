// Loops over float32 or bfloat16 tensors. Private to tensor/cpu.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/vector_widths.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/round_formulas.h"

namespace paracord::cpu {

// At reads element i as a float, and Put writes v to element i; loops that call them are
// vectorised.
PARACORD_KERNEL float At(const float* x, int64_t i) { return x[i]; }
PARACORD_KERNEL float At(const uint16_t* x, int64_t i) { return formulas::OfBfloat16(x[i]); }
PARACORD_KERNEL void Put(float* y, int64_t i, float v) { y[i] = v; }
PARACORD_KERNEL void Put(uint16_t* y, int64_t i, float v) { y[i] = formulas::Bfloat16Bits(v); }

// Calls use(p) with the tensor's bfloat16 pointer if set, and otherwise with the float32 pointer.
template <class TensorType, class Use>
PARACORD_KERNEL void With(TensorType x, const Use& use) {
  x.bfloat16 != nullptr ? use(x.bfloat16) : use(x.float32);
}

// Calls work(count, inputs, output) on float32 arrays until all n elements are done. If a tensor is
// bfloat16, each call is for at most 1024 elements, in converted copies.
template <size_t kInputs, class Work>
void InFloats(int64_t n, const std::array<ConstTensor, kInputs>& x, Tensor y, const Work& work) {
  constexpr int64_t kPart = 1024;
  const bool converts = y.bfloat16 != nullptr ||
                        std::any_of(x.begin(), x.end(),
                                    [](const ConstTensor& one) { return one.bfloat16 != nullptr; });
  const int64_t part = converts ? kPart : n;
  alignas(64) float in[kInputs][kPart], out[kPart];
  for (int64_t at = 0; at < n; at += part) {
    const int64_t count = std::min(part, n - at);
    std::array<const float*, kInputs> from;
    for (size_t k = 0; k < kInputs; ++k) {
      from[k] = (x[k] + at).float32;
      if (x[k].bfloat16 == nullptr) continue;
      Convert(count, x[k] + at, in[k]);
      from[k] = in[k];
    }
    work(count, from, y.bfloat16 == nullptr ? y.float32 + at : out);
    if (y.bfloat16 != nullptr) Convert(count, out, y + at);
  }
}

}  // namespace paracord::cpu
