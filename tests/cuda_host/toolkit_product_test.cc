// The calls of cuBLASLt for a product: with cuBLASLt's own descriptors, which need no GPU and
// refuse wrong values, and stand-ins for the heuristic and the product. Built only if the toolkit's
// headers exist.
#ifdef PARACORD_CUDNN
#include "tensor/cuda/toolkit_product.h"

#include <catch2/catch.hpp>
#include <vector>

namespace paracord::cuda {
namespace {

struct Asked {
  cublasStatus_t choice = CUBLAS_STATUS_SUCCESS, product = CUBLAS_STATUS_SUCCESS;
  int algorithms = 1;
  size_t bytes = 100;
  // A record of the calls.
  int choices = 0, products = 0;
  cublasLtEpilogue_t epilogue{};
  cublasOperation_t a{}, b{};
  cublasLtPointerMode_t mode{};
  const void *bias = nullptr, *alpha = nullptr, *beta = nullptr;
  std::vector<int64_t> rows = {}, columns = {}, ld = {}, count = {}, stride = {};
  std::vector<uint32_t> types = {}, alignments = {};
  uint64_t workspace_max = 0;
};
Asked* asked = nullptr;

// Functions that read descriptors.
struct Getters {
  decltype(&cublasLtMatmulDescGetAttribute) product = nullptr;
  decltype(&cublasLtMatrixLayoutGetAttribute) layout = nullptr;
  decltype(&cublasLtMatmulPreferenceGetAttribute) preference = nullptr;
};
Getters getters;

void Look(cublasLtMatmulDesc_t product) {
  const auto get = [&](cublasLtMatmulDescAttributes_t name, auto& value) {
    CHECK(getters.product(product, name, &value, sizeof(value), nullptr) == CUBLAS_STATUS_SUCCESS);
  };
  get(CUBLASLT_MATMUL_DESC_EPILOGUE, asked->epilogue);
  get(CUBLASLT_MATMUL_DESC_TRANSA, asked->a);
  get(CUBLASLT_MATMUL_DESC_TRANSB, asked->b);
  get(CUBLASLT_MATMUL_DESC_POINTER_MODE, asked->mode);
  get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, asked->bias);
}

void Look(std::initializer_list<cublasLtMatrixLayout_t> layouts) {
  const auto get = [&](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                       auto value, auto& to) {
    CHECK(getters.layout(layout, name, &value, sizeof(value), nullptr) == CUBLAS_STATUS_SUCCESS);
    to.push_back(static_cast<typename std::decay_t<decltype(to)>::value_type>(value));
  };
  asked->types.clear();
  for (auto* all : {&asked->rows, &asked->columns, &asked->ld, &asked->count, &asked->stride}) {
    all->clear();
  }
  for (const cublasLtMatrixLayout_t layout : layouts) {
    get(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, uint32_t{}, asked->types);
    get(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t{}, asked->rows);
    get(layout, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{}, asked->columns);
    get(layout, CUBLASLT_MATRIX_LAYOUT_LD, int64_t{}, asked->ld);
    get(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{}, asked->count);
    get(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{}, asked->stride);
  }
}

cublasStatus_t Choice(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                      cublasLtMatmulPreference_t preference, int wanted,
                      cublasLtMatmulHeuristicResult_t* found, int* count) {
  ++asked->choices;
  Look(product);
  Look({a, b, c, d});
  const auto get = [&](cublasLtMatmulPreferenceAttributes_t name, auto& value) {
    CHECK(getters.preference(preference, name, &value, sizeof(value), nullptr) ==
          CUBLAS_STATUS_SUCCESS);
  };
  get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, asked->workspace_max);
  asked->alignments.resize(4);
  get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, asked->alignments[0]);
  get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, asked->alignments[1]);
  get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, asked->alignments[2]);
  get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, asked->alignments[3]);
  CHECK(wanted >= 1);
  *count = asked->algorithms;
  found->workspaceSize = asked->bytes;
  found->state = CUBLAS_STATUS_SUCCESS;
  return asked->choice;
}

cublasStatus_t Multiply(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                        const void*, cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t,
                        const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                        void*, size_t, cudaStream_t) {
  ++asked->products;
  CHECK(c == d);
  CHECK(c_layout == d_layout);
  CHECK(algorithm != nullptr);
  asked->alpha = alpha;
  asked->beta = beta;
  Look(product);
  return asked->product;
}

// The real library without the calls that need a GPU; null if not installed.
const Libraries* Table() {
  const auto libraries = OpenLibraries(kCublas, kCudnn);
  if (!libraries.ok()) {
    WARN("skipped: " << libraries.status());
    return nullptr;
  }
  const std::string file = "libcublasLt.so.13";
  void* const library = OpenLibrary("cuBLASLt", file).value();
  REQUIRE(FindFunction(library, file, "cublasLtMatmulDescGetAttribute", getters.product).ok());
  REQUIRE(FindFunction(library, file, "cublasLtMatrixLayoutGetAttribute", getters.layout).ok());
  REQUIRE(
      FindFunction(library, file, "cublasLtMatmulPreferenceGetAttribute", getters.preference).ok());
  static Libraries table;
  table = **libraries;
  table.cublasLtMatmulAlgoGetHeuristic = Choice;
  table.cublasLtMatmul = Multiply;
  return &table;
}

float* At(uintptr_t address) {
  return reinterpret_cast<float*>(address);
}  // NOLINT: the pointer is never followed

// Row-major (5, 3) = (5, 7) (7, 3), in the engine's form.
GemmCall SmallProduct() {
  return {.m = 3,
          .n = 5,
          .k = 7,
          .a = At(4096),
          .lda = 3,
          .b = At(8192),
          .ldb = 7,
          .c = At(16384),
          .ldc = 3};
}

TEST_CASE("cuBLASLt takes the layouts, the bias and the ReLU of a product") {
  const Libraries* const table = Table();
  if (table == nullptr) return;
  for (const bool biased : {false, true}) {
    for (const bool relu : {false, true}) {
      Asked all;
      asked = &all;
      ToolkitProducts products(*table, nullptr, nullptr, 1000);
      GemmCall call = SmallProduct();
      call.bias = biased ? At(1024 + 16) : nullptr;
      call.relu = relu;
      REQUIRE(products.Run(call, true, nullptr).value());
      CHECK(all.epilogue == (biased ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                             : relu ? CUBLASLT_EPILOGUE_RELU
                                    : CUBLASLT_EPILOGUE_DEFAULT));
      CHECK(all.bias == call.bias);
      CHECK(all.rows == std::vector<int64_t>{3, 7, 3, 3});
      CHECK(all.columns == std::vector<int64_t>{7, 5, 5, 5});
      CHECK(all.ld == std::vector<int64_t>{3, 7, 3, 3});
      CHECK(all.count == std::vector<int64_t>{1, 1, 1, 1});
      CHECK(all.alignments == std::vector<uint32_t>{256, 256, 256, 256});
      CHECK(all.workspace_max == 1000);
      CHECK(all.mode == CUBLASLT_POINTER_MODE_HOST);
    }
  }
}

TEST_CASE("cuBLASLt takes transposed operands, batches, 16 bits, and factors on the device") {
  const Libraries* const table = Table();
  if (table == nullptr) return;
  Asked all;
  asked = &all;
  ToolkitProducts products(*table, nullptr, nullptr, 1000);
  GemmCall call = SmallProduct();
  call.transpose_a = call.transpose_b = true;
  call.lda = 7;
  call.ldb = 5;
  call.batch = 9;
  call.stride_a = 21;
  call.stride_b = 35;
  call.stride_c = 15;
  call.b = At(8192 + 6);
  call.operands = Operands::kFloat16;
  call.factors = At(64);
  REQUIRE(products.Run(call, true, nullptr).value());
  CHECK(all.a == CUBLAS_OP_T);
  CHECK(all.b == CUBLAS_OP_T);
  CHECK(all.rows == std::vector<int64_t>{7, 5, 3, 3});
  CHECK(all.columns == std::vector<int64_t>{3, 7, 5, 5});
  CHECK(all.count == std::vector<int64_t>{9, 9, 9, 9});
  CHECK(all.stride == std::vector<int64_t>{21, 35, 15, 15});
  CHECK(all.types == std::vector<uint32_t>{CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUDA_R_32F});
  CHECK(all.alignments[1] == 2);
  CHECK(all.mode == CUBLASLT_POINTER_MODE_DEVICE);
  CHECK(all.alpha == At(64));
  CHECK(all.beta == At(68));
}

TEST_CASE("an algorithm of cuBLASLt is chosen once for a shape, and the bias may be another") {
  const Libraries* const table = Table();
  if (table == nullptr) return;
  Asked all;
  asked = &all;
  ToolkitProducts products(*table, nullptr, nullptr, 1000);
  GemmCall call = SmallProduct();
  for (const uintptr_t bias : {1024u, 2048u, 4096u}) {
    call.bias = At(bias);
    REQUIRE(products.Run(call, true, nullptr).value());
    CHECK(all.bias == At(bias));
  }
  CHECK(all.choices == 1);
  call.bias = At(1028);  // a different alignment
  REQUIRE(products.Run(call, true, nullptr).value());
  call.k = 6;
  REQUIRE(products.Run(call, true, nullptr).value());
  CHECK(all.choices == 3);
  CHECK(all.products == 5);
}

TEST_CASE("what cuBLASLt has no algorithm for is left to others, and its errors are not") {
  const Libraries* const table = Table();
  if (table == nullptr) return;
  const auto run = [&](Asked all) {
    asked = &all;
    ToolkitProducts products(*table, nullptr, nullptr, 1000);
    (void)products.Run(SmallProduct(), true, nullptr);
    absl::StatusOr<bool> again = products.Run(SmallProduct(), true, nullptr);
    CHECK(all.choices == (again.ok() ? 1 : 2));
    return again;
  };
  CHECK_FALSE(run({.algorithms = 0}).value());
  CHECK_FALSE(run({.bytes = 1001}).value());
  CHECK_FALSE(run({.choice = CUBLAS_STATUS_NOT_SUPPORTED}).value());
  CHECK_FALSE(run({.product = CUBLAS_STATUS_NOT_SUPPORTED}).value());
  CHECK_FALSE(run({.product = CUBLAS_STATUS_ARCH_MISMATCH}).value());
  CHECK(absl::IsInternal(run({.choice = CUBLAS_STATUS_INTERNAL_ERROR}).status()));
  CHECK(absl::IsResourceExhausted(run({.choice = CUBLAS_STATUS_ALLOC_FAILED}).status()));
}

}  // namespace
}  // namespace paracord::cuda
#endif
