// Products by cuBLASLt. Row-major c (m, n) = a b is column-major c^T (n, m) = b^T a^T of the same
// memory: the operands change places, and each keeps whether it is transposed.
#include <algorithm>

#include "worker/ops/cuda/elementwise.h"
#include "worker/ops/cuda/engine.h"

namespace paracord::cuda {
namespace {

// Some kernels have a block for each product in a dimension of the grid that ends here.
constexpr int64_t kBatchMax = 65535;

// In 16 bits a product takes half as long, but an operand that has to be made so is read (for
// float16, twice) and written before. That is worth it from as many multiplications for each of its
// elements; GPUs without TF32 need far longer for one.
constexpr int64_t kWorthBfloat16 = 512, kWorthFloat16 = 896, kWorthFloat16WithoutTf32 = 160;

class CublasMatmul : public Matmul {
 public:
  CublasMatmul(Engine& engine, const MatmulShape& s)
      : engine_(engine), s_(s), operands_(engine.operands()) {}

  void Run(Operand a, Operand b, const float* bias, float* c) override {
    GemmCall call{.transpose_a = s_.transpose_b,
                  .transpose_b = s_.transpose_a,
                  .m = s_.n,
                  .n = s_.m,
                  .k = s_.k,
                  .a = b.data,
                  .lda = s_.transpose_b ? s_.k : s_.n,
                  .stride_a = s_.k * s_.n,
                  .b = a.data,
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
  // The operands of the call in 16 bits. False: not worth it.
  bool Round(const Operand& a, const Operand& b, GemmCall& call) {
    const bool has_bfloat16 = engine_.runtime().has_bfloat16();  // and TF32
    if (operands_ == Operands::kFloat16) {
      return IsWorth(has_bfloat16 ? kWorthFloat16 : kWorthFloat16WithoutTf32) &&
             ToFloat16(a, b, call);
    }
    const bool given = a.bfloat16 != nullptr || b.bfloat16 != nullptr;
    if (!has_bfloat16 || !(given || IsWorth(kWorthBfloat16))) return false;
    call.a = ToBfloat16(b, Scratch::kRight, s_.batch * call.stride_a);
    call.b = ToBfloat16(a, Scratch::kLeft, s_.batch * call.stride_b);
    return call.a != nullptr && call.b != nullptr;
  }
  bool IsWorth(int64_t multiplications) const {
    return s_.m * s_.n >= multiplications * (s_.m + s_.n);
  }
  const uint16_t* ToBfloat16(const Operand& x, Scratch name, int64_t n) {
    if (x.bfloat16 != nullptr) return x.bfloat16;
    auto* const rounded = engine_.Work<uint16_t>(name, n);
    if (rounded != nullptr) engine_.Map("to bfloat16", n, ToBfloat16Body{x.data, rounded});
    return rounded;
  }
  // Each scaled by its largest, so that neither gradients nor what has no bound leave the range.
  bool ToFloat16(const Operand& a, const Operand& b, GemmCall& call) {
    float* const largest = engine_.Work<float>(Scratch::kFactors, 4);
    if (largest == nullptr) return false;
    call.a = ToFloat16(b.data, largest, Scratch::kRight, s_.batch * call.stride_a);
    call.b = ToFloat16(a.data, largest + 1, Scratch::kLeft, s_.batch * call.stride_b);
    call.factors = largest + 2;
    engine_.Map("factors", 2, ProductFactorsBody{largest, largest + 2});
    return call.a != nullptr && call.b != nullptr;
  }
  const uint16_t* ToFloat16(const float* x, float* largest, Scratch name, int64_t n) {
    auto* const rounded = engine_.Work<uint16_t>(name, n);
    if (rounded == nullptr) return nullptr;
    engine_.Reduce("largest", 1, n, false, LargestBody{x, largest});
    engine_.Map("to float16", n, ToFloat16Body{x, largest, rounded});
    return rounded;
  }

  Engine& engine_;
  const MatmulShape s_;
  const Operands operands_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Engine& engine, const MatmulShape& s) {
  return std::make_unique<CublasMatmul>(engine, s);
}

}  // namespace paracord::cuda
