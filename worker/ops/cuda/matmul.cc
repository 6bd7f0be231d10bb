// Products by cuBLAS. Row-major c (m, n) = a b is column-major c^T (n, m) = b^T a^T of the same
// memory: the operands change places, and each keeps whether it is transposed.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "worker/ops/cuda/elementwise.h"
#include "worker/ops/cuda/engine.h"

namespace paracord::cuda {
namespace {

// Some kernels have a block for each product in a dimension of the grid that ends here.
constexpr int64_t kBatchMax = 65535;

class CublasMatmul : public Matmul {
 public:
  CublasMatmul(Engine& engine, const MatmulShape& s)
      : engine_(engine), s_(s), tf32_(engine.tf32()) {}

  void Run(const float* a, const float* b, const float* bias, float* c) override {
    if (!engine_.runs()) return;
    GemmCall call{.transpose_a = s_.transpose_b,
                  .transpose_b = s_.transpose_a,
                  .m = s_.n,
                  .n = s_.m,
                  .k = s_.k,
                  .a = b,
                  .lda = s_.transpose_b ? s_.k : s_.n,
                  .stride_a = s_.k * s_.n,
                  .b = a,
                  .ldb = s_.transpose_a ? s_.m : s_.k,
                  .stride_b = s_.m * s_.k,
                  .c = c,
                  .ldc = s_.n,
                  .stride_c = s_.m * s_.n,
                  .tf32 = tf32_};
    for (int64_t done = 0; done < s_.batch; done += call.batch) {
      call.batch = std::min(s_.batch - done, kBatchMax);
      const auto multiply = [&] { return engine_.runtime().Gemm(call, engine_.stream()); };
      if (!engine_.Do("matmul", multiply)) return;
      call.a += call.batch * call.stride_a;
      call.b += call.batch * call.stride_b;
      call.c += call.batch * call.stride_c;
    }
    if (!s_.bias && !s_.relu) return;
    engine_.Map("bias", s_.batch * s_.m * s_.n,
                BiasBody{s_.n, s_.relu, s_.bias ? bias : nullptr, c});
  }

 private:
  Engine& engine_;
  const MatmulShape s_;
  const bool tf32_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Engine& engine, const MatmulShape& s) {
  for (const int64_t size : {s.m, s.k, s.n, s.batch}) {
    if (size > 0 && size <= std::numeric_limits<int32_t>::max()) continue;
    return absl::InvalidArgumentError(absl::StrCat("matmul: cuBLAS takes no size ", size));
  }
  return std::make_unique<CublasMatmul>(engine, s);
}

}  // namespace paracord::cuda
