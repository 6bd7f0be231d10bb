// Layers over images, channels last.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/layers.h"

namespace paracord {
namespace {

// Sets `axis.out` and the padding: TensorFlow's rules, where "same" puts the odd pixel at the end.
absl::Status Slide(const char* name, bool same, WindowAxis& axis) {
  const int64_t reach = (axis.size - 1) * axis.dilation + 1;
  if (same) {
    axis.out = (axis.in + axis.stride - 1) / axis.stride;
    const int64_t pad = std::max<int64_t>((axis.out - 1) * axis.stride + reach - axis.in, 0);
    axis.pad_before = pad / 2;
    axis.pad_after = pad - pad / 2;
  } else {
    axis.out = axis.in < reach ? 0 : (axis.in - reach) / axis.stride + 1;
  }
  if (axis.out < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " of its input, ", axis.in,
                                                   ", is smaller than its window, ", reach));
  }
  return absl::OkStatus();
}

// Height and width of a window, as its layer's keys say.
struct Window {
  Window(LayerConfig& config, absl::string_view size_key, absl::string_view dilation_key,
         std::pair<int64_t, int64_t> default_strides)
      : same(config.Choice("padding", "valid", {"valid", "same"}) == "same") {
    config.Choice("data_format", "channels_last", {"channels_last"});
    if (!config.Has(size_key)) config.Fail(size_key, "is missing");
    const auto size = config.Pair(size_key, 1);
    auto strides = default_strides;
    if (config.Has("strides")) {
      strides = config.Pair("strides", 1);
    } else {
      config.Ignore("strides");
    }
    std::pair<int64_t, int64_t> dilation{1, 1};
    if (!dilation_key.empty()) dilation = config.Pair(dilation_key, 1);
    height = {.size = size.first, .stride = strides.first, .dilation = dilation.first};
    width = {.size = size.second, .stride = strides.second, .dilation = dilation.second};
    if ((strides.first > 1 || strides.second > 1) && (dilation.first > 1 || dilation.second > 1)) {
      config.Fail("strides", "above 1 cannot be combined with dilation_rate above 1");  // as Keras
    }
  }

  absl::StatusOr<std::pair<WindowAxis, WindowAxis>> Over(const Shape& input) const {
    if (input.size() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of (height, width, channels), not ", ShapeName(input)));
    }
    auto axes = std::make_pair(height, width);
    axes.first.in = input[0];
    axes.second.in = input[1];
    RETURN_IF_ERROR(Slide("height", same, axes.first));
    RETURN_IF_ERROR(Slide("width", same, axes.second));
    return axes;
  }

  WindowAxis height, width;
  bool same;
};

class Conv2DKernel : public Kernel {
 public:
  Conv2DKernel(Ops& ops, const ConvShape& shape, std::unique_ptr<Conv2D> conv)
      : ops_(ops), shape_(shape), conv_(std::move(conv)) {}

  void Forward(const ForwardCall& call) override {
    conv_->Forward(call.inputs[0], call.parameters[0], shape_.bias ? call.parameters[1] : nullptr,
                   call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (shape_.relu) {
      ops_.ActivateBackward(
          {ActivationKind::kRelu, 0}, shape_.batch * shape_.height.out * shape_.width.out,
          shape_.out_channels, nullptr, call.output, call.d_output, call.d_output);
    }
    if (call.d_parameters[0] != nullptr) {
      conv_->BackwardKernel(call.inputs[0], call.d_output, call.d_parameters[0],
                            shape_.bias ? call.d_parameters[1] : nullptr);
    }
    if (call.d_inputs[0] != nullptr) {
      conv_->BackwardInput(call.d_output, call.parameters[0], call.d_inputs[0]);
    }
  }

 private:
  Ops& ops_;
  const ConvShape shape_;
  const std::unique_ptr<Conv2D> conv_;
};

class Conv2DLayer : public Layer {
 public:
  explicit Conv2DLayer(LayerConfig& config)
      : Layer(config),
        filters_(config.RequiredInteger("filters", 1)),
        window_(config, "kernel_size", "dilation_rate", {1, 1}),
        groups_(config.Integer("groups", 1, 1)),
        bias_(config.Flag("use_bias", true)),
        activation_(config.ActivationOf("activation")),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    if (filters_ % groups_ != 0) config.Fail("groups", "must divide filters");
    config.Ignore("rank");  // 2, written by some releases
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const auto axes, window_.Over(inputs[0]));
    const int64_t channels = inputs[0][2];
    if (channels % groups_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"groups\": ", groups_, " does not divide ", channels, " channels"));
    }
    RETURN_IF_ERROR(Declare(0, "kernel",
                            {axes.first.size, axes.second.size, channels / groups_, filters_},
                            kernel_initializer_));
    if (bias_) RETURN_IF_ERROR(Declare(1, "bias", {filters_}, bias_initializer_));
    return Shape{axes.first.out, axes.second.out, filters_};
  }
  std::optional<Activation> activation_after() const override {
    if (fused()) return std::nullopt;
    return activation_;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const auto axes, window_.Over(inputs[0]));
    const ConvShape shape{.batch = batch,
                          .in_channels = inputs[0][2],
                          .out_channels = filters_,
                          .groups = groups_,
                          .height = axes.first,
                          .width = axes.second,
                          .bias = bias_,
                          .relu = fused()};
    ASSIGN_OR_RETURN(auto conv, ops.MakeConv2D(shape));
    return std::make_unique<Conv2DKernel>(ops, shape, std::move(conv));
  }

 private:
  bool fused() const { return activation_.kind == ActivationKind::kRelu; }

  const int64_t filters_;
  const Window window_;
  const int64_t groups_;
  const bool bias_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
};

class Pool2DLayer : public Layer {
 public:
  Pool2DLayer(LayerConfig& config, bool max)
      : Layer(config), max_(max), window_(config, "pool_size", "", {config.Pair("pool_size", 2)}) {}

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const auto axes, window_.Over(inputs[0]));
    return Shape{axes.first.out, axes.second.out, inputs[0][2]};
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const auto axes, window_.Over(inputs[0]));
    ASSIGN_OR_RETURN(auto pool, ops.MakePool2D({.max = max_,
                                                .batch = batch,
                                                .channels = inputs[0][2],
                                                .height = axes.first,
                                                .width = axes.second}));
    return std::make_unique<Pool2DKernel>(std::move(pool));
  }

 private:
  class Pool2DKernel : public Kernel {
   public:
    explicit Pool2DKernel(std::unique_ptr<Pool2D> pool) : pool_(std::move(pool)) {}
    void Forward(const ForwardCall& call) override { pool_->Forward(call.inputs[0], call.output); }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] != nullptr) pool_->Backward(call.d_output, call.d_inputs[0]);
    }

   private:
    const std::unique_ptr<Pool2D> pool_;
  };

  const bool max_;
  const Window window_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv2D(LayerConfig& config) {
  return std::make_unique<Conv2DLayer>(config);
}
std::unique_ptr<Layer> MakeMaxPooling2D(LayerConfig& config) {
  return std::make_unique<Pool2DLayer>(config, true);
}
std::unique_ptr<Layer> MakeAveragePooling2D(LayerConfig& config) {
  return std::make_unique<Pool2DLayer>(config, false);
}

}  // namespace paracord
