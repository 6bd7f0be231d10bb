#include "tensor/cuda/toolkit_product.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "tensor/cuda/toolkit_status.h"

namespace paracord::cuda {
namespace {

constexpr size_t kChosenMax = 4096;  // shapes; few, unless batches come in all sizes

#define RETURN_IF_CUBLAS(name, ...) \
  RETURN_IF_ERROR(StatusOf(libraries_, #name, libraries_.name(__VA_ARGS__)))

cudaDataType_t TypeOf(Operands operands) {
  return operands == Operands::kBfloat16  ? CUDA_R_16BF
         : operands == Operands::kFloat16 ? CUDA_R_16F
                                          : CUDA_R_32F;
}

// The alignment in bytes, capped at 256, beyond which no algorithm cares.
uint32_t AlignmentOf(const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at) | 256;
  return static_cast<uint32_t>(address & -address);
}

std::string KeyOf(const GemmCall& c, bool tf32) {
  return absl::StrJoin({int64_t{c.transpose_a},
                        int64_t{c.transpose_b},
                        c.m,
                        c.n,
                        c.k,
                        c.lda,
                        c.stride_a,
                        c.ldb,
                        c.stride_b,
                        c.ldc,
                        c.stride_c,
                        c.batch,
                        static_cast<int64_t>(c.operands),
                        int64_t{tf32},
                        int64_t{c.bias != nullptr},
                        int64_t{c.relu},
                        int64_t{c.factors != nullptr},
                        int64_t{AlignmentOf(c.a)},
                        int64_t{AlignmentOf(c.b)},
                        int64_t{AlignmentOf(c.c)},
                        int64_t{AlignmentOf(c.bias)}},
                       " ");
}

bool IsRefusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

}  // namespace

absl::StatusOr<ToolkitProducts::Held<cublasLtMatrixLayout_t>> ToolkitProducts::Layout(
    cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld, int64_t batch,
    int64_t stride) const {
  cublasLtMatrixLayout_t made = nullptr;
  RETURN_IF_CUBLAS(cublasLtMatrixLayoutCreate, &made, type, static_cast<uint64_t>(rows),
                   static_cast<uint64_t>(columns), ld);
  Held<cublasLtMatrixLayout_t> layout(made, libraries_.cublasLtMatrixLayoutDestroy);
  if (batch == 1) return layout;
  const auto count = static_cast<int32_t>(batch);
  RETURN_IF_CUBLAS(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                   &count, sizeof(count));
  RETURN_IF_CUBLAS(cublasLtMatrixLayoutSetAttribute, made,
                   CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
  return layout;
}

absl::StatusOr<ToolkitProducts::Chosen> ToolkitProducts::Describe(const GemmCall& call,
                                                                  bool tf32) const {
  const bool fast = tf32 && call.operands == Operands::kTf32;
  cublasLtMatmulDesc_t made = nullptr;
  RETURN_IF_CUBLAS(cublasLtMatmulDescCreate, &made,
                   fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
  Held<cublasLtMatmulDesc_t> product(made, libraries_.cublasLtMatmulDescDestroy);
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    return StatusOf(libraries_, "cublasLtMatmulDescSetAttribute",
                    libraries_.cublasLtMatmulDescSetAttribute(made, name, &value, sizeof(value)));
  };
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cublasLtEpilogue_t epilogue =
      call.bias != nullptr ? call.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
      : call.relu          ? CUBLASLT_EPILOGUE_RELU
                           : CUBLASLT_EPILOGUE_DEFAULT;
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, op(call.transpose_a)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, op(call.transpose_b)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_POINTER_MODE, call.factors != nullptr
                                                             ? CUBLASLT_POINTER_MODE_DEVICE
                                                             : CUBLASLT_POINTER_MODE_HOST));
  if (call.bias != nullptr) RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias));
  const cudaDataType_t type = TypeOf(call.operands);
  const int64_t rows_a = call.transpose_a ? call.k : call.m;
  const int64_t rows_b = call.transpose_b ? call.n : call.k;
  ASSIGN_OR_RETURN(
      auto a, Layout(type, rows_a, call.m + call.k - rows_a, call.lda, call.batch, call.stride_a));
  ASSIGN_OR_RETURN(
      auto b, Layout(type, rows_b, call.n + call.k - rows_b, call.ldb, call.batch, call.stride_b));
  ASSIGN_OR_RETURN(auto c, Layout(CUDA_R_32F, call.m, call.n, call.ldc, call.batch, call.stride_c));
  return Chosen{std::move(product), std::move(a), std::move(b), std::move(c)};
}

absl::StatusOr<ToolkitProducts::Chosen> ToolkitProducts::Choose(const GemmCall& call, bool tf32) {
  ASSIGN_OR_RETURN(Chosen chosen, Describe(call, tf32));
  cublasLtMatmulPreference_t made = nullptr;
  RETURN_IF_CUBLAS(cublasLtMatmulPreferenceCreate, &made);
  const Held<cublasLtMatmulPreference_t> preference(made,
                                                    libraries_.cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    return StatusOf(
        libraries_, "cublasLtMatmulPreferenceSetAttribute",
        libraries_.cublasLtMatmulPreferenceSetAttribute(made, name, &value, sizeof(value)));
  };
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_bytes_}));
  const std::pair<cublasLtMatmulPreferenceAttributes_t, const void*> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, call.a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, call.b},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, call.c},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, call.c}};
  for (const auto& [name, at] : alignments) RETURN_IF_ERROR(set(name, AlignmentOf(at)));
  std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
  int count = 0;
  const cublasStatus_t status = libraries_.cublasLtMatmulAlgoGetHeuristic(
      handle_, chosen.product.get(), chosen.a.get(), chosen.b.get(), chosen.c.get(), chosen.c.get(),
      made, static_cast<int>(found.size()), found.data(), &count);
  if (!IsRefusal(status)) {
    RETURN_IF_ERROR(StatusOf(libraries_, "cublasLtMatmulAlgoGetHeuristic", status));
  }
  const auto end = found.begin() + (status == CUBLAS_STATUS_SUCCESS ? count : 0);
  const auto best = std::find_if(found.begin(), end, [this](const auto& each) {
    return each.state == CUBLAS_STATUS_SUCCESS && each.workspaceSize <= workspace_bytes_;
  });
  chosen.found = best != end;
  if (chosen.found) chosen.algorithm = best->algo;
  if (!chosen.found && !std::exchange(said_slow_, true)) {
    Logger("device").Warn(
        "cuBLASLt has no algorithm for a product of {} x {} x {} ({}): cuBLAS computes it, more "
        "slowly",
        call.m, call.n, call.k, libraries_.cublasGetStatusString(status));
  }
  return chosen;
}

absl::StatusOr<bool> ToolkitProducts::Run(const GemmCall& call, bool tf32, Stream stream) {
  if (chosen_.size() >= kChosenMax) chosen_.clear();
  std::string key = KeyOf(call, tf32);
  auto at = chosen_.find(key);
  if (at == chosen_.end()) {
    ASSIGN_OR_RETURN(Chosen chosen, Choose(call, tf32));
    at = chosen_.emplace(std::move(key), std::move(chosen)).first;
  }
  Chosen& chosen = at->second;
  if (!chosen.found) return false;
  if (call.bias != nullptr) {
    RETURN_IF_CUBLAS(cublasLtMatmulDescSetAttribute, chosen.product.get(),
                     CUBLASLT_MATMUL_DESC_BIAS_POINTER, &call.bias, sizeof(call.bias));
  }
  const float one = 1, zero = 0;
  const bool given = call.factors != nullptr;
  const cublasStatus_t status = libraries_.cublasLtMatmul(
      handle_, chosen.product.get(), given ? call.factors : &one, call.a, chosen.a.get(), call.b,
      chosen.b.get(), given ? call.factors + 1 : &zero, call.c, chosen.c.get(), call.c,
      chosen.c.get(), &chosen.algorithm, workspace_, workspace_bytes_,
      static_cast<cudaStream_t>(stream));
  if (IsRefusal(status)) {
    chosen.found = false;
    return false;
  }
  RETURN_IF_ERROR(StatusOf(libraries_, "cublasLtMatmul", status));
  return true;
}

}  // namespace paracord::cuda
