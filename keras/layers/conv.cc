// Convolutions over steps (1D) and images (2D), channels last: full, grouped, depthwise, and
// separable. Steps are treated as images of one row.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/window.h"

namespace paracord {
namespace {

// A convolution and its gradients, as a part of a kernel.
class ConvPart {
 public:
  ConvPart(Ops& ops, const ConvShape& shape, std::unique_ptr<Conv2D> conv)
      : ops_(ops), shape_(shape), conv_(std::move(conv)) {}

  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) {
    conv_->Forward(x, kernel, bias, y);
  }
  // `y` is for the ReLU; any of the results may be null.
  void Backward(ConstTensor x, const float* kernel, ConstTensor y, Tensor dy, Tensor dx,
                float* dkernel, float* dbias) {
    if (shape_.relu) {
      const int64_t rows = shape_.batch * shape_.height.out * shape_.width.out;
      ops_.ActivateBackward({ActivationKind::kRelu}, rows, shape_.out_channels, nullptr, y, dy, dy);
    }
    conv_->Backward(
        {.dy = dy, .dkernel = dkernel, .dbias = dbias, .x = x, .dx = dx, .kernel = kernel});
  }
  int64_t outputs() const { return shape_.outputs(); }

 private:
  Ops& ops_;
  ConvShape shape_;
  std::unique_ptr<Conv2D> conv_;
};

class ConvKernel : public Kernel {
 public:
  ConvKernel(ConvPart part, bool bias) : part_(std::move(part)), bias_(bias) {}
  void Forward(const ForwardCall& call) override {
    part_.Forward(call.inputs[0], call.parameters[0], bias_ ? call.parameters[1] : nullptr,
                  call.output);
  }
  void Backward(const BackwardCall& call) override {
    part_.Backward(call.inputs[0], call.parameters[0], call.output, call.d_output, call.d_inputs[0],
                   call.d_parameters[0], bias_ ? call.d_parameters[1] : nullptr);
  }

 private:
  ConvPart part_;
  const bool bias_;
};

// A depthwise convolution followed by a pointwise one.
class SeparableKernel : public Kernel {
 public:
  SeparableKernel(ConvPart depth, ConvPart point, bool bias, DeviceArray between, DeviceArray back)
      : depth_(std::move(depth)),
        point_(std::move(point)),
        bias_(bias),
        between_(std::move(between)),
        back_(std::move(back)) {}
  void Forward(const ForwardCall& call) override {
    depth_.Forward(call.inputs[0], call.parameters[0], nullptr, between_.get());
    point_.Forward(between_.get(), call.parameters[1], bias_ ? call.parameters[2] : nullptr,
                   call.output);
  }
  void Backward(const BackwardCall& call) override {
    point_.Backward(between_.get(), call.parameters[1], call.output, call.d_output, back_.get(),
                    call.d_parameters[1], bias_ ? call.d_parameters[2] : nullptr);
    depth_.Backward(call.inputs[0], call.parameters[0], nullptr, back_.get(), call.d_inputs[0],
                    call.d_parameters[0], nullptr);
  }

 private:
  ConvPart depth_, point_;
  const bool bias_;
  const DeviceArray between_, back_;
};

class ConvLayer : public Layer {
 public:
  enum class Kind { kWhole, kDepthwise, kSeparable };
  ConvLayer(LayerConfig& config, Kind kind, size_t axes)
      : Layer(config),
        kind_(kind),
        axes_(axes),
        filters_(kind == Kind::kDepthwise ? 0 : config.RequiredInteger("filters", 1)),
        multiplier_(kind == Kind::kWhole ? 1 : config.Integer("depth_multiplier", 1, 1)),
        window_(config, axes, "kernel_size", "dilation_rate", 1),
        groups_(config.Integer("groups", 1, 1)),
        bias_(config.Flag("use_bias", true)),
        activation_(config.ActivationOf("activation")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    const bool whole = kind == Kind::kWhole;
    if (!whole && groups_ != 1) config.Fail("groups", "must be 1");
    if (filters_ % groups_ != 0) config.Fail("groups", "must divide filters");
    // Keras writes these keys for every convolution, meaningful or not.
    for (const char* key : {"rank", "kernel_initializer", "filters", "kernel_regularizer"}) {
      config.Ignore(key);
    }
    initializer_ = config.InitializerOf(whole ? "kernel_initializer" : "depthwise_initializer",
                                        "glorot_uniform");
    if (kind == Kind::kSeparable) {
      point_initializer_ = config.InitializerOf("pointwise_initializer", "glorot_uniform");
    }
    // Keras 3 names the variable kernel, Keras 2 depthwise_kernel.
    const bool plain = whole || (kind == Kind::kDepthwise && !config.keras2());
    kernel_name_ = plain ? "kernel" : "depthwise_kernel";
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Window::Axes axes, window_.Over(inputs[0]));
    const int64_t channels = inputs[0].back();
    const int64_t wide = channels * multiplier_;
    if (channels % groups_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"groups\": ", groups_, " does not divide ", channels, " channels"));
    }
    Shape kernel{axes.width.size};
    if (axes_ == 2) kernel.insert(kernel.begin(), axes.height.size);
    const bool whole = kind_ == Kind::kWhole;
    kernel.push_back(whole ? channels / groups_ : channels);
    kernel.push_back(whole ? filters_ : multiplier_);
    size_t index = 0;
    RETURN_IF_ERROR(Declare(index++, kernel_name_, kernel, initializer_));
    if (kind_ == Kind::kSeparable) {
      Shape point(axes_, 1);
      point.insert(point.end(), {wide, filters_});
      RETURN_IF_ERROR(Declare(index++, "pointwise_kernel", point, point_initializer_));
    }
    const int64_t out = kind_ == Kind::kDepthwise ? wide : filters_;
    if (bias_) RETURN_IF_ERROR(Declare(index, "bias", {out}, bias_initializer_));
    return axes.Output(axes_, out);
  }

  std::optional<Activation> activation_after() const override {
    if (fused()) return std::nullopt;
    return activation_;
  }

  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    const int64_t window = window_.height.size * window_.width.size, in = inputs[0].back();
    const int64_t places = Elements(output) / output.back();
    if (kind_ == Kind::kWhole) return Elements(output) * window * in / groups_;
    const int64_t depth = places * in * multiplier_ * window;
    return kind_ == Kind::kDepthwise ? depth : depth + Elements(output) * in * multiplier_;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return MakeKernelOf({}, ops, batch, inputs);
  }
  Bfloat16 TakesBfloat16(Ops& ops, std::span<const Shape> inputs) const override {
    const absl::StatusOr<Window::Axes> axes = window_.Over(inputs[0]);
    const KernelForm form{.input_bfloat16 = true, .output_bfloat16 = true};
    const bool takes =
        axes.ok() && ops.ComputesBfloat16(First(form, 1, inputs[0], *axes)) &&
        (kind_ != Kind::kSeparable || ops.ComputesBfloat16(Second(form, 1, inputs[0], *axes)));
    return takes ? Bfloat16::kTaken : Bfloat16::kNever;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(const KernelForm& form, Ops& ops,
                                                       int64_t batch,
                                                       std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Window::Axes axes, window_.Over(inputs[0]));
    const ConvShape shape = First(form, batch, inputs[0], axes);
    ASSIGN_OR_RETURN(auto conv, ops.MakeConv2D(shape));
    ConvPart part(ops, shape, std::move(conv));
    if (kind_ != Kind::kSeparable) return std::make_unique<ConvKernel>(std::move(part), bias_);
    const ConvShape point = Second(form, batch, inputs[0], axes);
    ASSIGN_OR_RETURN(auto point_conv, ops.MakeConv2D(point));
    ASSIGN_OR_RETURN(auto between, ops.Allocate(part.outputs()));
    ASSIGN_OR_RETURN(auto back, ops.Allocate(part.outputs()));
    return std::make_unique<SeparableKernel>(std::move(part),
                                             ConvPart(ops, point, std::move(point_conv)), bias_,
                                             std::move(between), std::move(back));
  }

 private:
  // The convolution, or a separable convolution's depthwise part.
  ConvShape First(const KernelForm& form, int64_t batch, const Shape& input,
                  const Window::Axes& axes) const {
    const int64_t channels = input.back();
    const bool separable = kind_ == Kind::kSeparable;
    return {.batch = batch,
            .in_channels = channels,
            .out_channels = kind_ == Kind::kWhole ? filters_ : channels * multiplier_,
            .groups = kind_ == Kind::kWhole ? groups_ : channels,
            .height = axes.height,
            .width = axes.width,
            .bias = bias_ && !separable,
            .relu = fused() && !separable,
            .x_bfloat16 = form.input_bfloat16,
            .y_bfloat16 = form.output_bfloat16 && !separable};
  }
  // The pointwise part of a separable convolution.
  ConvShape Second(const KernelForm& form, int64_t batch, const Shape& input,
                   const Window::Axes& axes) const {
    return {.batch = batch,
            .in_channels = input.back() * multiplier_,
            .out_channels = filters_,
            .height = {.in = axes.height.out, .out = axes.height.out},
            .width = {.in = axes.width.out, .out = axes.width.out},
            .bias = bias_,
            .relu = fused(),
            .y_bfloat16 = form.output_bfloat16};
  }
  bool fused() const { return activation_.kind == ActivationKind::kRelu; }

  const Kind kind_;
  const size_t axes_;
  const int64_t filters_, multiplier_;
  const Window window_;
  const int64_t groups_;
  const bool bias_;
  const Activation activation_;
  const Initializer bias_initializer_;
  Initializer initializer_, point_initializer_;
  std::string kernel_name_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(LayerConfig& config) {
  using Kind = ConvLayer::Kind;
  const std::string& name = config.class_name();
  const Kind kind = name.starts_with("Depthwise")   ? Kind::kDepthwise
                    : name.starts_with("Separable") ? Kind::kSeparable
                                                    : Kind::kWhole;
  return std::make_unique<ConvLayer>(config, kind, name.ends_with("2D") ? 2 : 1);
}

}  // namespace paracord
