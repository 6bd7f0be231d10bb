#include "tests/cuda_host/host_math.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/half_float.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/round_formulas.h"

namespace paracord::cuda {
namespace {

std::vector<float> Widened(Operands operands, const void* from, int64_t n) {
  std::vector<float> all(static_cast<size_t>(n));
  const std::span bits(static_cast<const uint16_t*>(from), all.size());
  if (operands == Operands::kFloat16) {
    F16ToFloats(bits, all);
  } else if (operands == Operands::kBfloat16) {
    Bf16ToFloats(bits, all);
  } else {
    std::memcpy(all.data(), from, all.size() * sizeof(float));
  }
  return all;
}

// The numbers that the units of a product compute with, in the operand's own layout: (rows,
// columns), one column after the other, or (columns, rows) if it is transposed.
std::vector<float> ReadOperand(const GemmCall& call, bool has_tf32, const void* from,
                               bool transpose, int64_t rows, int64_t columns, int64_t ld) {
  if (transpose) std::swap(rows, columns);
  std::vector<float> all = Widened(call.operands, from, (columns - 1) * ld + rows);
  if (has_tf32 && call.operands == Operands::kTf32) {
    for (float& x : all) x = formulas::WithoutBits<13>(x);
  }
  return all;
}

}  // namespace

absl::Status CheckGemm(const GemmCall& call) {
  const int64_t rows_a = call.transpose_a ? call.k : call.m;
  const int64_t rows_b = call.transpose_b ? call.n : call.k;
  if (call.m < 1 || call.n < 1 || call.k < 1 || call.lda < rows_a || call.ldb < rows_b ||
      call.ldc < call.m || call.batch < 1) {
    return absl::InternalError("cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE");
  }
  if (call.batch > 65535) {  // some kernels have the batch in a dimension of the grid
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
  const std::vector<float> left =
      ReadOperand(call, has_tf32, a, call.transpose_a, call.m, call.k, call.lda);
  const std::vector<float> right =
      ReadOperand(call, has_tf32, b, call.transpose_b, call.k, call.n, call.ldb);
  for (int64_t j = 0; j < call.n; ++j) {
    float* column = c + j * call.ldc;
    std::fill(column, column + call.m, 0.f);
    for (int64_t p = 0; p < call.k; ++p) {
      const float factor =
          right[static_cast<size_t>(call.transpose_b ? j + p * call.ldb : p + j * call.ldb)];
      const float* const from = left.data() + (call.transpose_a ? p : p * call.lda);
      const int64_t step = call.transpose_a ? call.lda : 1;
      for (int64_t i = 0; i < call.m; ++i) column[i] += from[i * step] * factor;
    }
    for (int64_t i = 0; i < call.m; ++i) {
      const float sum = column[i] * alpha + (call.bias == nullptr ? 0 : call.bias[i]);
      column[i] = call.relu && sum <= 0 ? 0 : sum;
    }
  }
}

HostConvMath::HostConvMath(const ConvCall& call, bool finishes)
    : s_(call.shape),
      operands_(call.operands),
      inputs_(s_.inputs()),
      outputs_(s_.outputs()),
      taps_(s_.height.size * s_.width.size * (s_.in_channels / s_.groups)),
      adds_(finishes && s_.bias),
      cpu_(MakeCpuOps(1)) {
  ConvShape shape = s_;
  shape.bias = adds_;
  shape.relu = finishes && s_.relu;
  shape.x_bfloat16 = shape.y_bfloat16 = false;  // the operands are converted to float32 here
  conv_ = cpu_->MakeConv2D(shape).value();
}

HostConvMath::Floats HostConvMath::Read(const void* tensor, int64_t n) const {
  return Widened(operands_, tensor, n);
}

void HostConvMath::Write(const Floats& from, void* tensor) const {
  const std::span bits(static_cast<uint16_t*>(tensor), from.size());
  if (operands_ == Operands::kFloat16) {
    FloatsToF16(from, bits);
  } else if (operands_ == Operands::kBfloat16) {
    FloatsToBf16(from, bits);
  } else {
    std::memcpy(tensor, from.data(), from.size() * sizeof(float));
  }
}

HostConvMath::Floats HostConvMath::Kernel(const void* w) const {
  const Floats filter = Read(w, taps_ * s_.out_channels);
  Floats kernel(filter.size());
  for (size_t i = 0; i < filter.size(); ++i) {
    const auto [out, tap] = std::div(static_cast<int64_t>(i), taps_);
    kernel[static_cast<size_t>(tap * s_.out_channels + out)] = filter[i];
  }
  return kernel;
}

HostConvMath::Floats HostConvMath::Filter(const Floats& kernel) const {
  Floats filter(kernel.size());
  for (size_t i = 0; i < kernel.size(); ++i) {
    const auto [tap, out] = std::div(static_cast<int64_t>(i), s_.out_channels);
    filter[static_cast<size_t>(out * taps_ + tap)] = kernel[i];
  }
  return filter;
}

void HostConvMath::Forward(const void* x, const void* w, const void* bias, void* y) {
  Floats result(static_cast<size_t>(outputs_));
  const Floats added = adds_ ? Read(bias, s_.out_channels) : Floats();
  conv_->Forward(Read(x, inputs_).data(), Kernel(w).data(), added.data(), result.data());
  Write(result, y);
}

void HostConvMath::BackwardData(const void* w, const void* dy, void* dx) {
  Floats result(static_cast<size_t>(inputs_));
  conv_->Backward(
      {.dy = Read(dy, outputs_).data(), .dx = result.data(), .kernel = Kernel(w).data()});
  Write(result, dx);
}

void HostConvMath::BackwardFilter(const void* x, const void* dy, void* dw) {
  Floats kernel(static_cast<size_t>(taps_ * s_.out_channels));
  Floats bias(static_cast<size_t>(s_.out_channels));
  conv_->Backward({.dy = Read(dy, outputs_).data(),
                   .dkernel = kernel.data(),
                   .dbias = bias.data(),
                   .x = Read(x, inputs_).data()});
  Write(Filter(kernel), dw);
}

}  // namespace paracord::cuda
