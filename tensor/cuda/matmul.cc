// Products by cuBLASLt. Row-major c (m, n) = a b is, in memory, column-major c^T (n, m) = b^T a^T:
// the operands change places, and each stays transposed or not.
#include <algorithm>

#include "tensor/cuda/engine.h"
#include "tensor/cuda/short_operands.h"

namespace paracord::cuda {
namespace {

// Some kernels have the batch in a grid dimension of this size.
constexpr int64_t kBatchMax = 65535;

class CublasMatmul : public Matmul {
 public:
  CublasMatmul(Engine& engine, const MatmulShape& s)
      : engine_(engine), s_(s), operands_(engine.operands()), shorts_(engine, operands_) {}

  bool takes_bfloat16() const override {
    return operands_ == Operands::kBfloat16 && engine_.runtime().has_bfloat16();
  }
  void Run(ConstTensor a, ConstTensor b, const float* bias, float* c) override {
    GemmCall call{.transpose_a = s_.transpose_b,
                  .transpose_b = s_.transpose_a,
                  .m = s_.n,
                  .n = s_.m,
                  .k = s_.k,
                  .a = b.float32,
                  .lda = s_.transpose_b ? s_.k : s_.n,
                  .stride_a = s_.k * s_.n,
                  .b = a.float32,
                  .ldb = s_.transpose_a ? s_.m : s_.k,
                  .stride_b = s_.m * s_.k,
                  .c = c,
                  .ldc = s_.n,
                  .stride_c = s_.m * s_.n,
                  .operands = operands_,
                  .bias = s_.bias ? bias : nullptr,
                  .relu = s_.relu};
    if (OperandBytes(operands_) == 2 && !Round(a, b, call)) call.operands = Operands::kTf32;
    if (!engine_.runs()) return;
    for (int64_t done = 0; done < s_.batch; done += call.batch) {
      call.batch = std::min(s_.batch - done, kBatchMax);
      const auto multiply = [&] { return engine_.runtime().Gemm(call, engine_.stream()); };
      if (!engine_.Do("matmul", multiply)) return;
      const int64_t each = OperandBytes(call.operands);
      call.a = static_cast<const char*>(call.a) + call.batch * call.stride_a * each;
      call.b = static_cast<const char*>(call.b) + call.batch * call.stride_b * each;
      call.c += call.batch * call.stride_c;
    }
  }

 private:
  // Rounds the operands of the call to 16 bits. Returns false if rounding does not pay. (k cancels
  // out of the comparison.)
  bool Round(ConstTensor a, ConstTensor b, GemmCall& call) {
    const bool given = takes_bfloat16() && (a.bfloat16 != nullptr || b.bfloat16 != nullptr);
    if (!given && !shorts_.AreWorth(s_.m * s_.n, s_.m + s_.n)) return false;
    call.a = Rounded(1, b, s_.batch * call.stride_a);
    call.b = Rounded(0, a, s_.batch * call.stride_b);
    call.factors = shorts_.Factors();
    return call.a != nullptr && call.b != nullptr;
  }
  const uint16_t* Rounded(int operand, ConstTensor x, int64_t n) {
    const bool given = operands_ == Operands::kBfloat16 && x.bfloat16 != nullptr;
    return given ? x.bfloat16 : shorts_.Round(operand, n, x.float32);
  }

  Engine& engine_;
  const MatmulShape s_;
  const Operands operands_;
  ShortOperands shorts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Engine& engine, const MatmulShape& s) {
  return std::make_unique<CublasMatmul>(engine, s);
}

}  // namespace paracord::cuda
