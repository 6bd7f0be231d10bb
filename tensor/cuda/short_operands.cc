#include "tensor/cuda/short_operands.h"

#include <cmath>

#include "tensor/cuda/elementwise.h"

namespace paracord::cuda {
namespace {

// Tensor cores multiply twice as fast in 16 bits, but rounding reads the operands (for float16
// twice) and writes them. Rounding pays from this many multiplications per number on; GPUs without
// TF32 are far slower otherwise, and rounding pays much earlier.
constexpr int64_t kWorthBfloat16 = 512, kWorthFloat16 = 896, kWorthFloat16WithoutTf32 = 160;

}  // namespace

bool ShortOperands::AreWorth(int64_t multiplications, int64_t numbers) const {
  const bool has_bfloat16 = engine_.runtime().has_bfloat16();  // implies TF32
  if (operands_ == Operands::kFloat16) {
    return multiplications >= numbers * (has_bfloat16 ? kWorthFloat16 : kWorthFloat16WithoutTf32);
  }
  return operands_ == Operands::kBfloat16 && has_bfloat16 &&
         multiplications >= numbers * kWorthBfloat16;
}

uint16_t* ShortOperands::Room(int operand, int64_t n) {
  return engine_.Work<uint16_t>(operand == 0 ? Scratch::kLeft : Scratch::kRight, n);
}

const uint16_t* ShortOperands::Round(int operand, int64_t n, const float* x) {
  uint16_t* const rounded = Room(operand, n);
  if (rounded == nullptr) return nullptr;
  if (operands_ == Operands::kBfloat16) {
    engine_.Map("to bfloat16", n, ConvertBody{ConstTensor(x), Tensor(rounded)});
    return rounded;
  }
  float* const largest = Largest();
  if (largest == nullptr) return nullptr;
  engine_.Reduce("largest", 1, n, false, LargestBody{x, largest + operand});
  engine_.Map("to float16", n,
              ToFloat16Body{std::ldexp(1.f, -headroom_), x, largest + operand, rounded});
  return rounded;
}

const float* ShortOperands::Factors() {
  if (operands_ != Operands::kFloat16) return nullptr;
  float* const largest = Largest();
  if (largest == nullptr) return nullptr;
  engine_.Map("factors", 2,
              ProductFactorsBody{std::ldexp(1.f, 2 * headroom_), largest, largest + 2});
  return largest + 2;
}

}  // namespace paracord::cuda
