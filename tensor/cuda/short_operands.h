// The two operands of a product or a convolution in 16 bits, for tensor cores: bfloat16, or
// float16, each times the power of two by which its largest fits, so that neither gradients nor
// what has no bound leave the range.
#pragma once

#include "tensor/cuda/engine.h"

namespace paracord::cuda {

class ShortOperands {
 public:
  // `headroom`: so many powers of two float16 stays below what it can hold, for sums of products
  // that have to fit too.
  ShortOperands(Engine& engine, Operands operands, int headroom = 0)
      : engine_(engine), operands_(operands), headroom_(headroom) {}

  // Whether so many multiplications are worth the rounding of so many numbers.
  bool AreWorth(int64_t multiplications, int64_t numbers) const;
  // For so many of the operand 0 or 1. Null after an error.
  uint16_t* Room(int operand, int64_t n);
  // The operand, there.
  const uint16_t* Round(int operand, int64_t n, const float* x);
  // Of float16, once both are rounded: on the device, what takes the scales off a result, and 0.
  // Null for bfloat16, and after an error.
  const float* Factors();

 private:
  float* Largest() { return engine_.Work<float>(Scratch::kFactors, 4); }

  Engine& engine_;
  const Operands operands_;
  const int headroom_;
};

}  // namespace paracord::cuda
