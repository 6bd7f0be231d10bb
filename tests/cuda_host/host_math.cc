#include "tests/cuda_host/host_math.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/half_float.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/round_formulas.h"

namespace paracord::cuda {
namespace {

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
    return absl::InternalError("cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE");
  }
  if (call.batch > 65535) {  // of some kernels: a dimension of the grid
    return absl::InternalError("cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED");
  }
  return absl::OkStatus();
}

absl::Status CheckConv(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const auto agrees = [](const WindowAxis& axis) {
    const int64_t reach = (axis.size - 1) * axis.dilation + 1;
    return axis.out == (axis.in + axis.pad_before + axis.pad_after - reach) / axis.stride + 1;
  };
  if (!agrees(s.height) || !agrees(s.width) || s.in_channels % s.groups != 0 ||
      s.out_channels % s.groups != 0) {
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
    for (int64_t i = 0; i < call.m; ++i) {
      const float sum = column[i] * alpha + (call.bias == nullptr ? 0 : call.bias[i]);
      column[i] = call.relu && sum <= 0 ? 0 : sum;
    }
  }
}

HostConvMath::HostConvMath(const ConvCall& call, bool finishes)
    : s_(call.shape),
      cpu_(MakeCpuOps(1)),
      kernel_(static_cast<size_t>(s_.out_channels * s_.height.size * s_.width.size *
                                  (s_.in_channels / s_.groups))) {
  ConvShape shape = s_;
  shape.bias = finishes && s_.bias;
  shape.relu = finishes && s_.relu;
  conv_ = cpu_->MakeConv2D(shape).value();
}

void HostConvMath::Convert(const float* w, bool back, float* other) {
  const int64_t taps = static_cast<int64_t>(kernel_.size()) / s_.out_channels;
  for (int64_t o = 0; o < s_.out_channels; ++o) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t theirs = o * taps + tap, ours = tap * s_.out_channels + o;
      other[back ? theirs : ours] = w[back ? ours : theirs];
    }
  }
}

void HostConvMath::Forward(const float* x, const float* w, const float* bias, float* y) {
  Convert(w, false, kernel_.data());
  conv_->Forward(x, kernel_.data(), bias, y);
}

void HostConvMath::BackwardData(const float* w, const float* dy, float* dx) {
  Convert(w, false, kernel_.data());
  conv_->BackwardInput(dy, kernel_.data(), dx);
}

void HostConvMath::BackwardFilter(const float* x, const float* dy, float* dw) {
  if (bias_.empty()) bias_.resize(static_cast<size_t>(s_.out_channels));
  conv_->BackwardKernel(x, dy, kernel_.data(), bias_.data());
  Convert(kernel_.data(), true, dw);
}

}  // namespace paracord::cuda
