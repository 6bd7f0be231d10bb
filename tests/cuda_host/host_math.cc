#include "tests/cuda_host/host_math.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/half_float.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/round_formulas.h"

namespace paracord::cuda {
namespace {

WindowAxis Axis(int64_t in, int64_t out, int64_t size, int64_t stride, int64_t dilation,
                int64_t pad) {
  return {in, out, size, stride, dilation, pad, pad};
}

float Element(const GemmCall& call, bool has_tf32, const void* from, int64_t at) {
  if (call.operands == Operands::kBfloat16) {
    return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(from)[at]} << 16);
  }
  if (call.operands == Operands::kFloat16) {
    float x = 0;
    F16ToFloats({static_cast<const uint16_t*>(from) + at, 1}, {&x, 1});
    return x;
  }
  const float x = static_cast<const float*>(from)[at];
  return has_tf32 && call.operands == Operands::kTf32 ? formulas::WithoutBits<13>(x) : x;
}

}  // namespace

absl::Status CheckGemm(const GemmCall& call) {
  const int64_t rows_a = call.transpose_a ? call.k : call.m;
  const int64_t rows_b = call.transpose_b ? call.n : call.k;
  if (call.m < 1 || call.n < 1 || call.k < 1 || call.lda < rows_a || call.ldb < rows_b ||
      call.ldc < call.m || call.batch < 1) {
    return absl::InternalError("cublasGemmStridedBatchedEx_64: CUBLAS_STATUS_INVALID_VALUE");
  }
  if (call.batch > 65535) {  // of some kernels: a dimension of the grid
    return absl::InternalError("cublasGemmStridedBatchedEx_64: CUBLAS_STATUS_EXECUTION_FAILED");
  }
  return absl::OkStatus();
}

absl::Status CheckConv(const ConvCall& call) {
  // cudnnGetConvolutionNdForwardOutputDim.
  const auto out = [](int64_t in, int64_t pad, int64_t size, int64_t stride, int64_t dilation) {
    return 1 + (in + 2 * pad - ((size - 1) * dilation + 1)) / stride;
  };
  // cudnnSetTensor4dDescriptor: at most 2 giga-elements.
  const int64_t images[] = {call.batch * call.in_height * call.in_width * call.in_channels,
                            call.batch * call.out_height * call.out_width * call.out_channels};
  if (std::max(images[0], images[1]) > std::numeric_limits<int32_t>::max()) {
    return absl::InternalError("cudnn: CUDNN_STATUS_NOT_SUPPORTED: a tensor is too large");
  }
  if (call.out_height != out(call.in_height, call.pad_height, call.height, call.stride_height,
                             call.dilation_height) ||
      call.out_width !=
          out(call.in_width, call.pad_width, call.width, call.stride_width, call.dilation_width) ||
      call.in_channels % call.groups != 0 || call.out_channels % call.groups != 0) {
    return absl::InternalError("cudnn: CUDNN_STATUS_BAD_PARAM");
  }
  return absl::OkStatus();
}

void HostGemm(const GemmCall& call, bool has_tf32, const void* a, const void* b, float* c) {
  const float alpha = call.factors == nullptr ? 1 : call.factors[0];
  for (int64_t j = 0; j < call.n; ++j) {
    float* column = c + j * call.ldc;
    std::fill(column, column + call.m, 0.f);
    for (int64_t p = 0; p < call.k; ++p) {
      const float factor =
          Element(call, has_tf32, b, call.transpose_b ? j + p * call.ldb : p + j * call.ldb);
      const int64_t from = call.transpose_a ? p : p * call.lda;
      const int64_t step = call.transpose_a ? call.lda : 1;
      for (int64_t i = 0; i < call.m; ++i) {
        column[i] += Element(call, has_tf32, a, from + i * step) * factor;
      }
    }
    for (int64_t i = 0; i < call.m; ++i) column[i] *= alpha;
  }
}

HostConvMath::HostConvMath(const ConvCall& call)
    : call_(call),
      cpu_(MakeCpuOps(1)),
      kernel_(static_cast<size_t>(call.out_channels * call.height * call.width *
                                  (call.in_channels / call.groups))) {
  ConvShape shape;
  shape.batch = call.batch;
  shape.in_channels = call.in_channels;
  shape.out_channels = call.out_channels;
  shape.groups = call.groups;
  shape.height = Axis(call.in_height, call.out_height, call.height, call.stride_height,
                      call.dilation_height, call.pad_height);
  shape.width = Axis(call.in_width, call.out_width, call.width, call.stride_width,
                     call.dilation_width, call.pad_width);
  conv_ = cpu_->MakeConv2D(shape).value();
}

void HostConvMath::Convert(const float* w, bool back, float* other) {
  const int64_t in = call_.in_channels / call_.groups, taps = call_.height * call_.width * in;
  for (int64_t o = 0; o < call_.out_channels; ++o) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t theirs = o * taps + tap, ours = tap * call_.out_channels + o;
      other[back ? theirs : ours] = w[back ? ours : theirs];
    }
  }
}

void HostConvMath::Forward(const float* x, const float* w, float* y) {
  Convert(w, false, kernel_.data());
  conv_->Forward(x, kernel_.data(), nullptr, y);
}

void HostConvMath::BackwardData(const float* w, const float* dy, float* dx) {
  Convert(w, false, kernel_.data());
  conv_->BackwardInput(dy, kernel_.data(), dx);
}

void HostConvMath::BackwardFilter(const float* x, const float* dy, float* dw) {
  conv_->BackwardKernel(x, dy, kernel_.data(), nullptr);
  Convert(kernel_.data(), true, dw);
}

}  // namespace paracord::cuda
