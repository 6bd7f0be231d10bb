// Products by cuBLAS. Row-major c (m, n) = a b is column-major c^T (n, m) = b^T a^T of the same
// memory: the operands change places, and each keeps whether it is transposed.
#include <algorithm>

#include "worker/ops/cuda/elementwise.h"
#include "worker/ops/cuda/engine.h"

namespace paracord::cuda {
namespace {

// Some kernels have a block for each product in a dimension of the grid that ends here.
constexpr int64_t kBatchMax = 65535;

// As bfloat16 a product takes half as long, but an operand that has to be made so is read and
// written before. That is worth it from as many multiplications for each of its elements.
constexpr int64_t kWorthRounding = 512;

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
                  .operands = operands_};
    if (operands_ == Operands::kBfloat16 && !Round(a, b, call)) call.operands = Operands::kTf32;
    if (!engine_.runs()) return;
    for (int64_t done = 0; done < s_.batch; done += call.batch) {
      call.batch = std::min(s_.batch - done, kBatchMax);
      const auto multiply = [&] { return engine_.runtime().Gemm(call, engine_.stream()); };
      if (!engine_.Do("matmul", multiply)) return;
      const int64_t each = call.operands == Operands::kBfloat16 ? sizeof(uint16_t) : sizeof(float);
      call.a = static_cast<const char*>(call.a) + call.batch * call.stride_a * each;
      call.b = static_cast<const char*>(call.b) + call.batch * call.stride_b * each;
      call.c += call.batch * call.stride_c;
    }
    if (!s_.bias && !s_.relu) return;
    engine_.Map("bias", s_.batch * s_.m * s_.n,
                BiasBody{s_.n, s_.relu, s_.bias ? bias : nullptr, c});
  }

 private:
  // The operands of the call as bfloat16. False: not worth it.
  bool Round(const Operand& a, const Operand& b, GemmCall& call) {
    const bool given = a.bfloat16 != nullptr || b.bfloat16 != nullptr;
    if (!given && s_.m * s_.n < kWorthRounding * (s_.m + s_.n)) return false;
    if (!engine_.runtime().has_bfloat16()) return false;
    call.a = Rounded(b, Scratch::kRight, s_.batch * call.stride_a);
    call.b = Rounded(a, Scratch::kLeft, s_.batch * call.stride_b);
    return call.a != nullptr && call.b != nullptr;
  }
  const uint16_t* Rounded(const Operand& x, Scratch name, int64_t n) {
    if (x.bfloat16 != nullptr) return x.bfloat16;
    auto* const rounded = engine_.Work<uint16_t>(name, n);
    if (rounded != nullptr) engine_.Map("to bfloat16", n, ToBfloat16Body{x.data, rounded});
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
