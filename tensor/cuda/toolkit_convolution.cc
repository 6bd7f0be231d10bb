#include "tensor/cuda/toolkit_convolution.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/status_macros.h"
#include "tensor/cuda/toolkit_status.h"

namespace paracord::cuda {
namespace {

// The type of the operands and of the result.
cudnnDataType_t TypeOf(Operands operands) {
  switch (operands) {
    case Operands::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case Operands::kFloat16:
      return CUDNN_DATA_HALF;
    default:
      return CUDNN_DATA_FLOAT;
  }
}
constexpr int64_t kCudnnAlignment = 16;  // bytes

// The tensors of the graphs, by unique id.
enum Tensor : int64_t { kX = 1, kFilter, kBias, kY, kConvolved, kBiased };

// An image in cuDNN's order of axes (batch, channels, height, width); the channels are innermost in
// memory.
struct Image {
  int64_t batch = 0, channels = 0, height = 0, width = 0;
};

class ToolkitConvolution : public Convolution {
 public:
  ToolkitConvolution(const Libraries& libraries, const PlanDevice& device, const ConvCall& call)
      : libraries_(libraries), device_(device), s_(call.shape), type_(TypeOf(call.operands)) {}
  absl::Status Init(const PlanLimits& limits);

  Directions can() const override {
    return {forward_.has_value(), data_.has_value(), filter_.has_value(), finishes_};
  }
  size_t workspace_bytes() const override { return workspace_; }
  absl::Status Forward(const void* x, const void* w, const void* bias, void* y, void* workspace,
                       Stream stream) override {
    const std::array<Bound, 4> bound{{{kX, x}, {kFilter, w}, {kY, y}, {kBias, bias}}};
    const bool biased = finishes_ && s_.bias;
    return Run(forward_, std::span(bound.data(), biased ? 4 : 3), workspace, stream);
  }
  absl::Status BackwardData(const void* w, const void* dy, void* dx, void* workspace,
                            Stream stream) override {
    return Run(data_, std::array<Bound, 3>{{{kX, dx}, {kFilter, w}, {kY, dy}}}, workspace, stream);
  }
  absl::Status BackwardFilter(const void* x, const void* dy, void* dw, void* workspace,
                              Stream stream) override {
    return Run(filter_, std::array<Bound, 3>{{{kX, x}, {kFilter, dw}, {kY, dy}}}, workspace,
               stream);
  }

 private:
  // cuDNN's names for a gradient's operation and attributes.
  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
  };
  Image x() const { return {s_.batch, s_.in_channels, s_.height.in, s_.width.in}; }
  Image y() const { return {s_.batch, s_.out_channels, s_.height.out, s_.width.out}; }
  Image filter() const {
    return {s_.out_channels, s_.in_channels / s_.groups, s_.height.size, s_.width.size};
  }
  absl::StatusOr<Descriptor> Described(Tensor name, const Image& shape) const;
  absl::StatusOr<Descriptor> Convolved(const Names& names, const Descriptor& x, const Descriptor& w,
                                       const Descriptor& y) const;
  absl::StatusOr<Descriptor> Pointwise(cudnnPointwiseMode_t mode, const Descriptor& x,
                                       const Descriptor* bias, const Descriptor& y) const;
  // The forward plan; with `finishes`, including the call's bias and ReLU.
  absl::StatusOr<Plan> ForwardPlan(bool finishes, const PlanLimits& limits) const;
  absl::StatusOr<Plan> BackwardPlan(const Names& names, const PlanLimits& limits) const;
  absl::Status Take(absl::StatusOr<Plan> plan, std::optional<Plan>& to);
  absl::Status Run(const std::optional<Plan>& plan, std::span<const Bound> tensors, void* workspace,
                   Stream stream) const;

  const Libraries& libraries_;
  const PlanDevice device_;
  const ConvShape s_;
  const cudnnDataType_t type_;
  std::optional<Plan> forward_, data_, filter_;
  bool finishes_ = false;
  size_t workspace_ = 0;
};

absl::StatusOr<Descriptor> ToolkitConvolution::Described(Tensor name, const Image& shape) const {
  const bool inside = name == kConvolved || name == kBiased;
  const auto& [n, c, h, w] = shape;
  const int64_t dims[] = {n, c, h, w}, steps[] = {h * w * c, 1, w * c, c};
  Descriptor tensor(libraries_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, inside ? CUDNN_DATA_FLOAT : type_)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(dims))
      .Set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(steps))
      .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{name})
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnnAlignment)
      .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, inside);
  RETURN_IF_ERROR(tensor.Finish());
  return tensor;
}

absl::StatusOr<Descriptor> ToolkitConvolution::Convolved(const Names& names, const Descriptor& x,
                                                         const Descriptor& w,
                                                         const Descriptor& y) const {
  const auto axes = [this](int64_t WindowAxis::*part) {
    return std::array<int64_t, 2>{s_.height.*part, s_.width.*part};
  };
  const std::array<int64_t, 2> before = axes(&WindowAxis::pad_before),
                               after = axes(&WindowAxis::pad_after),
                               strides = axes(&WindowAxis::stride),
                               dilations = axes(&WindowAxis::dilation);
  Descriptor convolution(libraries_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const int64_t>(before))
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const int64_t>(after))
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const int64_t>(strides))
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const int64_t>(dilations));
  RETURN_IF_ERROR(convolution.Finish());
  Descriptor operation(libraries_, names.operation);
  operation.Set(names.convolution, convolution)
      .Set(names.x, x)
      .Set(names.w, w)
      .Set(names.y, y)
      .Set(names.alpha, 1.f)
      .Set(names.beta, 0.f);
  RETURN_IF_ERROR(operation.Finish());
  return operation;
}

absl::StatusOr<Descriptor> ToolkitConvolution::Pointwise(cudnnPointwiseMode_t mode,
                                                         const Descriptor& x,
                                                         const Descriptor* bias,
                                                         const Descriptor& y) const {
  Descriptor pointwise(libraries_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, mode)
      .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
  RETURN_IF_ERROR(pointwise.Finish());
  Descriptor operation(libraries_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (bias != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *bias);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  RETURN_IF_ERROR(operation.Finish());
  return operation;
}

absl::StatusOr<Plan> ToolkitConvolution::ForwardPlan(bool finishes,
                                                     const PlanLimits& limits) const {
  constexpr Names kNames = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  const bool adds = finishes && s_.bias, cuts = finishes && s_.relu;
  ASSIGN_OR_RETURN(const Descriptor from, Described(kX, x()));
  ASSIGN_OR_RETURN(const Descriptor w, Described(kFilter, filter()));
  // Only y leaves the graph; the results before it are virtual tensors.
  ASSIGN_OR_RETURN(const Descriptor to, Described(kY, y()));
  ASSIGN_OR_RETURN(const Descriptor convolved, Described(kConvolved, y()));
  ASSIGN_OR_RETURN(const Descriptor biased, Described(kBiased, y()));
  std::vector<Descriptor> operations;
  ASSIGN_OR_RETURN(Descriptor convolve, Convolved(kNames, from, w, adds || cuts ? convolved : to));
  operations.push_back(std::move(convolve));
  if (adds) {
    ASSIGN_OR_RETURN(const Descriptor bias, Described(kBias, {1, s_.out_channels, 1, 1}));
    ASSIGN_OR_RETURN(Descriptor add,
                     Pointwise(CUDNN_POINTWISE_ADD, convolved, &bias, cuts ? biased : to));
    operations.push_back(std::move(add));
  }
  if (cuts) {
    ASSIGN_OR_RETURN(Descriptor cut,
                     Pointwise(CUDNN_POINTWISE_RELU_FWD, adds ? biased : convolved, nullptr, to));
    operations.push_back(std::move(cut));
  }
  return Plan::Choose(libraries_, device_, operations, limits);
}

absl::StatusOr<Plan> ToolkitConvolution::BackwardPlan(const Names& names,
                                                      const PlanLimits& limits) const {
  ASSIGN_OR_RETURN(const Descriptor image, Described(kX, x()));
  ASSIGN_OR_RETURN(const Descriptor w, Described(kFilter, filter()));
  ASSIGN_OR_RETURN(const Descriptor dy, Described(kY, y()));
  ASSIGN_OR_RETURN(const Descriptor operation, Convolved(names, image, w, dy));
  return Plan::Choose(libraries_, device_, std::span(&operation, 1), limits);
}

// Takes a plan. A missing plan (UNIMPLEMENTED) is not an error.
absl::Status ToolkitConvolution::Take(absl::StatusOr<Plan> plan, std::optional<Plan>& to) {
  if (!plan.ok()) return absl::IsUnimplemented(plan.status()) ? absl::OkStatus() : plan.status();
  workspace_ = std::max(workspace_, plan->workspace_bytes());
  to.emplace(*std::move(plan));
  return absl::OkStatus();
}

absl::Status ToolkitConvolution::Init(const PlanLimits& limits) {
  constexpr Names kData = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  constexpr Names kKernel = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  // For a ReLU without a bias, cuDNN only has engines compiled at run time.
  const bool asks = (s_.bias || !s_.relu) && (type_ == CUDNN_DATA_FLOAT || s_.y_bfloat16);
  absl::StatusOr<Plan> forward = ForwardPlan(asks, limits);
  finishes_ = forward.ok() && asks;
  if (asks && s_.bias && absl::IsUnimplemented(forward.status()))
    forward = ForwardPlan(false, limits);
  absl::StatusOr<Plan> data = BackwardPlan(kData, limits), filter = BackwardPlan(kKernel, limits);
  const absl::Status why = forward.status();
  RETURN_IF_ERROR(Take(std::move(forward), forward_));
  RETURN_IF_ERROR(Take(std::move(data), data_));
  RETURN_IF_ERROR(Take(std::move(filter), filter_));
  const auto engine = [](const std::optional<Plan>& plan) { return plan ? plan->engine() : -1; };
  Logger("device").Debug("a convolution of {} to {} channels by {}x{}: engines {}, {}, {} of cuDNN",
                         s_.in_channels, s_.out_channels, s_.height.size, s_.width.size,
                         engine(forward_), engine(data_), engine(filter_));
  return forward_ || data_ || filter_ ? absl::OkStatus() : why;
}

absl::Status ToolkitConvolution::Run(const std::optional<Plan>& plan,
                                     std::span<const Bound> tensors, void* workspace,
                                     Stream stream) const {
  RETURN_IF_ERROR(
      StatusOf(libraries_, "cudnnSetStream",
               libraries_.cudnnSetStream(device_.handle, static_cast<cudaStream_t>(stream))));
  return plan->Run(device_.handle, tensors, workspace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Convolution>> MakeToolkitConvolution(const Libraries& libraries,
                                                                    const PlanDevice& device,
                                                                    const ToolkitOptions& options,
                                                                    const ConvCall& call) {
  auto convolution = std::make_unique<ToolkitConvolution>(libraries, device, call);
  RETURN_IF_ERROR(convolution->Init({.deterministic = options.deterministic,
                                     .tensor_cores = call.operands != Operands::kFloat32,
                                     .no_others = OperandBytes(call.operands) == 2,
                                     .workspace_max = call.workspace_max}));
  return convolution;
}

}  // namespace paracord::cuda
