// Rounds the two operands of a product or a convolution to 16 bits for tensor cores: to bfloat16,
// or to float16, where each operand is first scaled by a power of two at which its largest
// magnitude fits. Small gradients and unbounded values then do not leave float16's range.
#pragma once

#include "tensor/cuda/engine.h"

namespace paracord::cuda {

class ShortOperands {
 public:
  // `headroom` keeps float16 operands this many powers of two below float16's largest number, to
  // leave room for sums of products.
  ShortOperands(Engine& engine, Operands operands, int headroom = 0)
      : engine_(engine), operands_(operands), headroom_(headroom) {}

  // True if rounding `numbers` numbers is expected to take less time than multiplying in 16 bits
  // saves in `multiplications` multiplications. False if the operands are not of 16 bits.
  bool AreWorth(int64_t multiplications, int64_t numbers) const;
  // Returns scratch memory for n numbers of operand 0 or 1; null after an error.
  uint16_t* Room(int operand, int64_t n);
  // Rounds n numbers into the scratch memory of operand 0 or 1, and returns that memory; null after
  // an error.
  const uint16_t* Round(int operand, int64_t n, const float* x);
  // Called after both operands are rounded. Returns, on the device, the factor that undoes the
  // scales of float16, followed by 0 (cuBLAS' alpha and beta). Null for bfloat16 and after an
  // error.
  const float* Factors();

 private:
  float* Largest() { return engine_.Work<float>(Scratch::kFactors, 4); }

  Engine& engine_;
  const Operands operands_;
  const int headroom_;
};

}  // namespace paracord::cuda
