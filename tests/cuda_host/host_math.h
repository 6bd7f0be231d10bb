// The computations of cuBLAS and cuDNN on the processor, in the documented layouts.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tensor/cuda/runtime.h"
#include "tensor/ops.h"

namespace paracord::cuda {

// Refuse arguments as cuBLAS and cuDNN do.
absl::Status CheckGemm(const GemmCall& call);
absl::Status CheckConv(const ConvCall& call);

// Computes one product of a batch: C = alpha op(A) op(B), column-major. With TF32, operands are
// rounded to 11 bits.
void HostGemm(const GemmCall& call, bool has_tf32, const void* a, const void* b, float* c);

// Convolutions of NHWC images; the filter is (out, height, width, in / groups).
class HostConvMath {
 public:
  // `finishes`: Forward adds the bias and applies the ReLU.
  HostConvMath(const ConvCall& call, bool finishes);
  void Forward(const void* x, const void* w, const void* bias, void* y);
  void BackwardData(const void* w, const void* dy, void* dx);
  void BackwardFilter(const void* x, const void* dy, void* dw);

 private:
  using Floats = std::vector<float>;
  Floats Read(const void* tensor, int64_t n) const;
  void Write(const Floats& from, void* tensor) const;
  // Convert cuDNN's filter to the CPU engine's kernel (height, width, in / groups, out), and back.
  Floats Kernel(const void* w) const;
  Floats Filter(const Floats& kernel) const;

  const ConvShape s_;
  const Operands operands_;
  const int64_t inputs_, outputs_, taps_;
  const bool adds_;
  const std::unique_ptr<Ops> cpu_;
  std::unique_ptr<Conv2D> conv_;
};

}  // namespace paracord::cuda
