// What cuBLAS and cuDNN compute, on the processor, in the layouts that they document.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/ops/cuda/runtime.h"
#include "worker/ops/ops.h"

namespace paracord::cuda {

// As cuBLAS and cuDNN refuse arguments.
absl::Status CheckGemm(const GemmCall& call);
absl::Status CheckConv(const ConvCall& call);

// One of a batch: C = alpha op(A) op(B), column-major. TF32, where there is it: of operands rounded
// to 11 bits.
void HostGemm(const GemmCall& call, bool has_tf32, const void* a, const void* b, float* c);

// NHWC images; the filter is (out, height, width, in / groups).
class HostConvMath {
 public:
  // `finishes`: the way forward adds the bias and has its ReLU.
  HostConvMath(const ConvCall& call, bool finishes);
  void Forward(const float* x, const float* w, const float* bias, float* y);
  void BackwardData(const float* w, const float* dy, float* dx);
  void BackwardFilter(const float* x, const float* dy, float* dw);

 private:
  // Between cuDNN's filter and the CPU engine's kernel (height, width, in / groups, out).
  void Convert(const float* w, bool back, float* other);

  const ConvShape s_;
  const std::unique_ptr<Ops> cpu_;
  std::unique_ptr<Conv2D> conv_;
  std::vector<float> kernel_, bias_;
};

}  // namespace paracord::cuda
