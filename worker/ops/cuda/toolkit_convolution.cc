#include "worker/ops/cuda/toolkit_convolution.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/status_macros.h"
#include "worker/ops/cuda/toolkit_status.h"

namespace paracord::cuda {
namespace {

// All of a direction, each in two kinds of math.
constexpr int kAlgorithms =
    2 * std::max({int{CUDNN_CONVOLUTION_FWD_ALGO_COUNT}, int{CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT},
                  int{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT}});

#define RETURN_IF_CUDNN(name, ...) \
  RETURN_IF_ERROR(StatusOf(libraries_, #name, libraries_.name(__VA_ARGS__)))

class ToolkitConvolution : public Convolution {
 public:
  ToolkitConvolution(const Libraries& libraries, cudnnHandle_t cudnn)
      : libraries_(libraries), cudnn_(cudnn) {}
  ~ToolkitConvolution() override {
    for (const cudnnTensorDescriptor_t tensor : {x_, y_}) {
      if (tensor != nullptr) libraries_.cudnnDestroyTensorDescriptor(tensor);
    }
    if (w_ != nullptr) libraries_.cudnnDestroyFilterDescriptor(w_);
    for (const cudnnConvolutionDescriptor_t convolution : convolutions_) {
      if (convolution != nullptr) libraries_.cudnnDestroyConvolutionDescriptor(convolution);
    }
  }
  absl::Status Init(const ConvCall& call, const ToolkitOptions& options);

  Directions can() const override { return can_; }
  size_t workspace_bytes() const override { return workspace_; }
  absl::Status Forward(const float* x, const float* w, float* y, void* workspace,
                       Stream stream) override {
    RETURN_IF_CUDNN(cudnnSetStream, cudnn_, static_cast<cudaStream_t>(stream));
    return Ran("cudnnConvolutionForward",
               libraries_.cudnnConvolutionForward(cudnn_, &kOne, x_, x, w_, w, convolutions_[0],
                                                  forward_, workspace, workspace_, &kZero, y_, y));
  }
  absl::Status BackwardData(const float* w, const float* dy, float* dx, void* workspace,
                            Stream stream) override {
    RETURN_IF_CUDNN(cudnnSetStream, cudnn_, static_cast<cudaStream_t>(stream));
    return Ran("cudnnConvolutionBackwardData", libraries_.cudnnConvolutionBackwardData(
                                                   cudnn_, &kOne, w_, w, y_, dy, convolutions_[1],
                                                   data_, workspace, workspace_, &kZero, x_, dx));
  }
  absl::Status BackwardFilter(const float* x, const float* dy, float* dw, void* workspace,
                              Stream stream) override {
    RETURN_IF_CUDNN(cudnnSetStream, cudnn_, static_cast<cudaStream_t>(stream));
    return Ran(
        "cudnnConvolutionBackwardFilter",
        libraries_.cudnnConvolutionBackwardFilter(cudnn_, &kOne, x_, x, y_, dy, convolutions_[2],
                                                  filter_, workspace, workspace_, &kZero, w_, dw));
  }

 private:
  static constexpr float kOne = 1, kZero = 0;

  absl::Status Ran(const char* what, cudnnStatus_t status) const {
    const absl::Status ran = StatusOf(libraries_, what, status);
    return IsNotSupported(status) ? absl::UnimplementedError(ran.message()) : ran;
  }
  absl::Status Describe(const ConvCall& call, cudnnMathType_t math);
  // The best of the algorithms that may be used; its math goes into the descriptor. `usual` is one
  // that is deterministic, for when the heuristics name none. ask(algorithm, &bytes): what it needs
  // to work in, and whether it can do this at all; how it says that it cannot differs, so that any
  // error but the machine's only means the next one.
  template <class Found, class Ask>
  absl::Status Choose(const char* what, cudnnStatus_t status, const Found* found, int count,
                      decltype(Found::algo) usual, const ToolkitOptions& options,
                      const ConvCall& call, cudnnConvolutionDescriptor_t convolution,
                      const Ask& ask, decltype(Found::algo)& chosen);

  const Libraries& libraries_;
  const cudnnHandle_t cudnn_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  // One a direction, because algorithms may differ in their math.
  std::array<cudnnConvolutionDescriptor_t, 3> convolutions_{};
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdDataAlgo_t data_{};
  cudnnConvolutionBwdFilterAlgo_t filter_{};
  size_t workspace_ = 0;
  Directions can_;
};

absl::Status ToolkitConvolution::Describe(const ConvCall& call, cudnnMathType_t math) {
  const auto size = [](int64_t n) { return static_cast<int>(n); };
  const auto image = [&](cudnnTensorDescriptor_t& tensor, int64_t channels, int64_t height,
                         int64_t width) -> absl::Status {
    RETURN_IF_CUDNN(cudnnCreateTensorDescriptor, &tensor);
    RETURN_IF_CUDNN(cudnnSetTensor4dDescriptor, tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
                    size(call.batch), size(channels), size(height), size(width));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(image(x_, call.in_channels, call.in_height, call.in_width));
  RETURN_IF_ERROR(image(y_, call.out_channels, call.out_height, call.out_width));
  RETURN_IF_CUDNN(cudnnCreateFilterDescriptor, &w_);
  RETURN_IF_CUDNN(cudnnSetFilter4dDescriptor, w_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC,
                  size(call.out_channels), size(call.in_channels / call.groups), size(call.height),
                  size(call.width));
  for (cudnnConvolutionDescriptor_t& convolution : convolutions_) {
    RETURN_IF_CUDNN(cudnnCreateConvolutionDescriptor, &convolution);
    RETURN_IF_CUDNN(cudnnSetConvolution2dDescriptor, convolution, size(call.pad_height),
                    size(call.pad_width), size(call.stride_height), size(call.stride_width),
                    size(call.dilation_height), size(call.dilation_width), CUDNN_CROSS_CORRELATION,
                    CUDNN_DATA_FLOAT);
    RETURN_IF_CUDNN(cudnnSetConvolutionGroupCount, convolution, size(call.groups));
    RETURN_IF_CUDNN(cudnnSetConvolutionMathType, convolution, math);
  }
  return absl::OkStatus();
}

template <class Found, class Ask>
absl::Status ToolkitConvolution::Choose(const char* what, cudnnStatus_t status, const Found* found,
                                        int count, decltype(Found::algo) usual,
                                        const ToolkitOptions& options, const ConvCall& call,
                                        cudnnConvolutionDescriptor_t convolution, const Ask& ask,
                                        decltype(Found::algo)& chosen) {
  if (IsOfMachine(status)) return StatusOf(libraries_, what, status);
  cudnnStatus_t why = status;
  const auto may = [&](decltype(Found::algo) algorithm,
                       cudnnMathType_t math) -> absl::StatusOr<bool> {
    RETURN_IF_CUDNN(cudnnSetConvolutionMathType, convolution, math);
    size_t bytes = 0;
    why = ask(algorithm, &bytes);
    if (IsOfMachine(why)) return StatusOf(libraries_, what, why);
    if (why != CUDNN_STATUS_SUCCESS || bytes > call.workspace_max) return false;
    chosen = algorithm;
    workspace_ = std::max(workspace_, bytes);
    return true;
  };
  for (const Found* at = found; status == CUDNN_STATUS_SUCCESS && at < found + count; ++at) {
    if (at->status != CUDNN_STATUS_SUCCESS) continue;
    if (options.deterministic && at->determinism != CUDNN_DETERMINISTIC) continue;
    // Heuristics name what math they had in mind, and may say "default" even where the descriptor
    // has FMA. What that has when an algorithm runs binds it: with FMA it takes no tensor cores.
    ASSIGN_OR_RETURN(const bool can, may(at->algo, call.tf32 ? at->mathType : CUDNN_FMA_MATH));
    if (can) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool can, may(usual, call.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
  if (can) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      what, ": cuDNN has no algorithm",
      why == CUDNN_STATUS_SUCCESS ? ""
                                  : absl::StrCat(" (", libraries_.cudnnGetErrorString(why), ")")));
}

absl::Status ToolkitConvolution::Init(const ConvCall& call, const ToolkitOptions& options) {
  RETURN_IF_ERROR(Describe(call, call.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
  const auto note = [](const absl::Status& status, bool& can) {
    can = status.ok();
    return absl::IsUnimplemented(status) ? absl::OkStatus() : status;
  };
  int count = 0;
  std::array<cudnnConvolutionFwdAlgoPerf_t, kAlgorithms> forward;
  cudnnStatus_t status = libraries_.cudnnGetConvolutionForwardAlgorithm_v7(
      cudnn_, x_, w_, convolutions_[0], y_, kAlgorithms, &count, forward.data());
  absl::Status chosen = Choose(
      "cudnnGetConvolutionForwardAlgorithm_v7", status, forward.data(), count,
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, options, call, convolutions_[0],
      [this](cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
        return libraries_.cudnnGetConvolutionForwardWorkspaceSize(cudnn_, x_, w_, convolutions_[0],
                                                                  y_, algorithm, bytes);
      },
      forward_);
  RETURN_IF_ERROR(note(chosen, can_.forward));
  std::array<cudnnConvolutionBwdDataAlgoPerf_t, kAlgorithms> data;
  status = libraries_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
      cudnn_, w_, y_, convolutions_[1], x_, kAlgorithms, &count, data.data());
  chosen = Choose(
      "cudnnGetConvolutionBackwardDataAlgorithm_v7", status, data.data(), count,
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, options, call, convolutions_[1],
      [this](cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
        return libraries_.cudnnGetConvolutionBackwardDataWorkspaceSize(
            cudnn_, w_, y_, convolutions_[1], x_, algorithm, bytes);
      },
      data_);
  RETURN_IF_ERROR(note(chosen, can_.data));
  std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kAlgorithms> filter;
  status = libraries_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      cudnn_, x_, y_, convolutions_[2], w_, kAlgorithms, &count, filter.data());
  chosen = Choose(
      "cudnnGetConvolutionBackwardFilterAlgorithm_v7", status, filter.data(), count,
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, options, call, convolutions_[2],
      [this](cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
        return libraries_.cudnnGetConvolutionBackwardFilterWorkspaceSize(
            cudnn_, x_, y_, convolutions_[2], w_, algorithm, bytes);
      },
      filter_);
  RETURN_IF_ERROR(note(chosen, can_.filter));
  return can_.forward || can_.data || can_.filter ? absl::OkStatus() : chosen;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Convolution>> MakeToolkitConvolution(const Libraries& libraries,
                                                                    cudnnHandle_t cudnn,
                                                                    const ToolkitOptions& options,
                                                                    const ConvCall& call) {
  for (const int64_t size : {call.batch, call.in_channels, call.out_channels, call.in_height,
                             call.in_width, call.height, call.width}) {
    if (size > std::numeric_limits<int>::max()) {
      return absl::UnimplementedError("cuDNN: a size is too large");
    }
  }
  auto convolution = std::make_unique<ToolkitConvolution>(libraries, cudnn);
  RETURN_IF_ERROR(convolution->Init(call, options));
  return convolution;
}

}  // namespace paracord::cuda
