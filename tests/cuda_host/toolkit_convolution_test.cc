// Which algorithm of cuDNN is taken, by a table of its functions that answer as a test says. Only
// where cuDNN's header is.
#ifdef PARACORD_CUDNN
#include "worker/ops/cuda/toolkit_convolution.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <vector>

namespace paracord::cuda {
namespace {

// What the heuristics say, and what an algorithm needs in a kind of math.
struct Answers {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  cudnnStatus_t computed = CUDNN_STATUS_SUCCESS;
  std::vector<cudnnConvolutionFwdAlgoPerf_t> forward;
  std::function<cudnnStatus_t(int algorithm, cudnnMathType_t math, size_t* bytes)> bytes =
      [](int, cudnnMathType_t, size_t* size) {
        *size = 100;
        return CUDNN_STATUS_SUCCESS;
      };
  // Of what was asked.
  std::map<const void*, cudnnMathType_t> math;
  int made = 0, destroyed = 0, wanted = 0;
  int ran = -1;
  size_t ran_in = 0;
  cudnnMathType_t ran_with{};
};
Answers* answers = nullptr;

template <class Descriptor>
cudnnStatus_t Make(Descriptor* made) {
  *made = reinterpret_cast<Descriptor>(static_cast<intptr_t>(++answers->made));
  return CUDNN_STATUS_SUCCESS;
}
template <class Descriptor>
cudnnStatus_t Destroy(Descriptor) {
  ++answers->destroyed;
  return CUDNN_STATUS_SUCCESS;
}
template <class... Any>
cudnnStatus_t Nothing(Any...) {
  return CUDNN_STATUS_SUCCESS;
}
template <class Algorithm, class X, class W, class Y>
cudnnStatus_t Bytes(cudnnHandle_t, X, W, cudnnConvolutionDescriptor_t convolution, Y,
                    Algorithm algorithm, size_t* bytes) {
  return answers->bytes(static_cast<int>(algorithm), answers->math[convolution], bytes);
}
// Of the gradients the heuristics name none.
template <class Found, class X, class W, class Y>
cudnnStatus_t None(cudnnHandle_t, X, W, cudnnConvolutionDescriptor_t, Y, int, int* count, Found*) {
  *count = 0;
  return answers->status;
}

Libraries Table() {
  Libraries table;
  table.cudnnGetErrorString = [](cudnnStatus_t) { return "as asked"; };
  table.cudnnCreateTensorDescriptor = Make;
  table.cudnnDestroyTensorDescriptor = Destroy;
  table.cudnnSetTensor4dDescriptor = Nothing;
  table.cudnnCreateFilterDescriptor = Make;
  table.cudnnDestroyFilterDescriptor = Destroy;
  table.cudnnSetFilter4dDescriptor = Nothing;
  table.cudnnCreateConvolutionDescriptor = Make;
  table.cudnnDestroyConvolutionDescriptor = Destroy;
  table.cudnnSetConvolution2dDescriptor = Nothing;
  table.cudnnSetConvolutionGroupCount = Nothing;
  table.cudnnSetConvolutionMathType = [](cudnnConvolutionDescriptor_t at, cudnnMathType_t math) {
    answers->math[at] = math;
    return CUDNN_STATUS_SUCCESS;
  };
  table.cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int most, int* count,
         cudnnConvolutionFwdAlgoPerf_t* found) {
        answers->wanted = most;
        *count = static_cast<int>(answers->forward.size());
        std::copy(answers->forward.begin(), answers->forward.end(), found);
        return answers->status;
      };
  table.cudnnGetConvolutionBackwardDataAlgorithm_v7 = None;
  table.cudnnGetConvolutionBackwardFilterAlgorithm_v7 = None;
  table.cudnnGetConvolutionForwardWorkspaceSize = Bytes;
  table.cudnnGetConvolutionBackwardDataWorkspaceSize =
      [](cudnnHandle_t h, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
         cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t x,
         cudnnConvolutionBwdDataAlgo_t algorithm,
         size_t* bytes) { return Bytes(h, w, y, convolution, x, algorithm, bytes); };
  table.cudnnGetConvolutionBackwardFilterWorkspaceSize =
      [](cudnnHandle_t h, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
         cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t w,
         cudnnConvolutionBwdFilterAlgo_t algorithm,
         size_t* bytes) { return Bytes(h, x, y, convolution, w, algorithm, bytes); };
  table.cudnnSetStream = Nothing;
  table.cudnnConvolutionForward =
      [](cudnnHandle_t, const void*, cudnnTensorDescriptor_t, const void*, cudnnFilterDescriptor_t,
         const void*, cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
         void*, size_t bytes, const void*, cudnnTensorDescriptor_t, void*) {
        answers->ran = algorithm;
        answers->ran_in = bytes;
        answers->ran_with = answers->math[convolution];
        return answers->computed;
      };
  return table;
}

cudnnConvolutionFwdAlgoPerf_t Found(cudnnConvolutionFwdAlgo_t algorithm, cudnnMathType_t math,
                                    cudnnDeterminism_t determinism = CUDNN_DETERMINISTIC,
                                    cudnnStatus_t status = CUDNN_STATUS_SUCCESS) {
  cudnnConvolutionFwdAlgoPerf_t found{};
  found.algo = algorithm;
  found.status = status;
  found.determinism = determinism;
  found.mathType = math;
  return found;
}

constexpr auto kUsual = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kPlain = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
constexpr auto kFft = CUDNN_CONVOLUTION_FWD_ALGO_FFT;

// Makes one and runs it forward.
absl::Status Run(Answers& all, bool tf32, bool deterministic = true) {
  answers = &all;
  const Libraries table = Table();
  absl::Status status;
  {
    const auto made = MakeToolkitConvolution(
        table, nullptr, {.deterministic = deterministic},
        {.batch = 1, .in_channels = 1, .out_channels = 1, .tf32 = tf32, .workspace_max = 1000});
    status = made.status();
    if (status.ok()) status = (*made)->Forward(nullptr, nullptr, nullptr, nullptr, nullptr);
    if (made.ok()) CHECK((*made)->workspace_bytes() >= all.ran_in);
  }
  CHECK(all.made == all.destroyed);
  return status;
}

TEST_CASE("the best algorithm is taken that may be: its determinism, what it works in, its math") {
  Answers all;
  all.forward = {Found(kFft, CUDNN_TENSOR_OP_MATH, CUDNN_NON_DETERMINISTIC),
                 Found(kFft, CUDNN_TENSOR_OP_MATH, CUDNN_DETERMINISTIC, CUDNN_STATUS_NOT_SUPPORTED),
                 Found(CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_TENSOR_OP_MATH),
                 Found(kPlain, CUDNN_TENSOR_OP_MATH), Found(kUsual, CUDNN_DEFAULT_MATH)};
  all.bytes = [](int algorithm, cudnnMathType_t, size_t* bytes) {
    *bytes = algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM ? 1001 : 1000;
    return CUDNN_STATUS_SUCCESS;
  };
  for (const bool tf32 : {false, true}) {
    REQUIRE(Run(all, tf32).ok());
    CHECK(all.ran == kPlain);
    CHECK(all.ran_with == (tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
    CHECK(all.ran_in == 1000);
    // There are as many as algorithms, and each may be there in two kinds of math.
    CHECK(all.wanted >= 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
    REQUIRE(Run(all, tf32, /*deterministic=*/false).ok());
    CHECK(all.ran == kFft);
    CHECK(all.ran_with == (tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
  }
}

TEST_CASE("without TF32 an algorithm is taken whatever math it is named with, and has FMA") {
  for (const cudnnMathType_t named : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH,
                                      CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, CUDNN_FMA_MATH}) {
    Answers all;
    all.forward = {Found(kFft, named), Found(kPlain, named)};
    // What has no kernel without tensor cores says so.
    all.bytes = [](int algorithm, cudnnMathType_t math, size_t*) {
      return algorithm == kPlain && math == CUDNN_FMA_MATH ? CUDNN_STATUS_SUCCESS
                                                           : CUDNN_STATUS_NOT_SUPPORTED;
    };
    REQUIRE(Run(all, /*tf32=*/false).ok());
    CHECK(all.ran == kPlain);
    CHECK(all.ran_with == CUDNN_FMA_MATH);
  }
}

// How cuDNN says that an algorithm, or the heuristics, cannot do a convolution.
constexpr cudnnStatus_t kRefusals[] = {CUDNN_STATUS_NOT_SUPPORTED,
                                       CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
                                       CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                                       CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
                                       CUDNN_STATUS_BAD_PARAM,
                                       CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                                       CUDNN_STATUS_INTERNAL_ERROR,
                                       CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE,
                                       CUDNN_STATUS_EXECUTION_FAILED_CUDART};
// And that it is of no use here at all.
constexpr cudnnStatus_t kOfMachine[] = {CUDNN_STATUS_NOT_INITIALIZED,
                                        CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                                        CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE,
                                        CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER};

TEST_CASE("an algorithm that cannot do it after all is passed over") {
  for (const cudnnStatus_t refusal : kRefusals) {
    INFO(refusal);
    Answers all;
    all.forward = {Found(kFft, CUDNN_FMA_MATH), Found(kPlain, CUDNN_FMA_MATH)};
    all.bytes = [&](int algorithm, cudnnMathType_t, size_t* bytes) {
      *bytes = 0;
      return algorithm == kFft ? refusal : CUDNN_STATUS_SUCCESS;
    };
    REQUIRE(Run(all, false).ok());
    CHECK(all.ran == kPlain);
  }
}

TEST_CASE("where the heuristics name none the usual algorithms are asked for") {
  std::vector<cudnnStatus_t> statuses(std::begin(kRefusals), std::end(kRefusals));
  statuses.push_back(CUDNN_STATUS_SUCCESS);
  for (const cudnnStatus_t status : statuses) {
    for (const bool tf32 : {false, true}) {
      Answers all;
      all.status = status;
      REQUIRE(Run(all, tf32).ok());
      CHECK(all.ran == kUsual);
      CHECK(all.ran_with == (tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
      CHECK(all.ran_in == 100);
    }
  }
}

TEST_CASE("a direction that cuDNN cannot do leaves the others") {
  Answers all;
  answers = &all;
  int asked = 0;  // the usual one of each direction
  all.bytes = [&](int, cudnnMathType_t, size_t*) {
    return ++asked == 2 ? CUDNN_STATUS_NOT_SUPPORTED_LAYOUT : CUDNN_STATUS_SUCCESS;
  };
  const Libraries table = Table();
  const auto made = MakeToolkitConvolution(table, nullptr, {}, {.workspace_max = 1000});
  REQUIRE(made.ok());
  CHECK((*made)->can().forward);
  CHECK_FALSE((*made)->can().data);
  CHECK((*made)->can().filter);
}

TEST_CASE("what cuDNN cannot do is UNIMPLEMENTED, and that it can nothing is not") {
  for (const cudnnStatus_t refusal : kRefusals) {
    Answers none;
    none.forward = {Found(kFft, CUDNN_FMA_MATH)};
    none.bytes = [&](int, cudnnMathType_t, size_t*) { return refusal; };
    CHECK(absl::IsUnimplemented(Run(none, false)));
  }
  for (const cudnnStatus_t of_machine : kOfMachine) {
    Answers fails;
    fails.status = of_machine;
    CHECK(absl::IsInternal(Run(fails, false)));
    fails.status = CUDNN_STATUS_SUCCESS;
    fails.bytes = [&](int, cudnnMathType_t, size_t*) { return of_machine; };
    CHECK(absl::IsInternal(Run(fails, false)));
  }
  Answers full;
  full.status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  CHECK(absl::IsResourceExhausted(Run(full, false)));
}

TEST_CASE("what cuDNN refuses only when it is to compute is UNIMPLEMENTED, too") {
  Answers refuses;
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH}) {
    refuses.computed = status;
    CHECK(absl::IsUnimplemented(Run(refuses, false)));
  }
  refuses.computed = CUDNN_STATUS_EXECUTION_FAILED_CUBLAS;
  CHECK(absl::IsInternal(Run(refuses, false)));
}

TEST_CASE("a library whose parts are not there is not whole, and the part is named") {
  void* const library = OpenLibrary("maths", "libm.so.6").value();
  constexpr const char* kThere[] = {"libc.so.6", "libstdc++.so.6"};
  CHECK(CheckParts("maths", library, kThere).ok());
  constexpr const char* kMissing[] = {"libc.so.6", "libnone.so.7"};
  const absl::Status status = CheckParts("maths", library, kMissing);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()).ends_with("is not whole: libnone.so.7 is missing"));
}

}  // namespace
}  // namespace paracord::cuda
#endif
