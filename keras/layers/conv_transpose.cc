// Transposed convolutions over steps and images. Their forward pass is a convolution's input
// gradient.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/window.h"

namespace paracord {
namespace {

class ConvTransposeKernel : public Kernel {
 public:
  // `shape` is the convolution's; the convolution's input is our output.
  ConvTransposeKernel(Ops& ops, const ConvShape& shape, std::unique_ptr<Conv2D> conv, bool bias)
      : ops_(ops),
        conv_(std::move(conv)),
        rows_(shape.batch * shape.height.in * shape.width.in),
        filters_(shape.in_channels),
        bias_(bias) {}
  void Forward(const ForwardCall& call) override {
    conv_->Backward({.dy = call.inputs[0], .dx = call.output, .kernel = call.parameters[0]});
    if (!bias_) return;
    ops_.Binary(BinaryKind::kAdd, {{rows_, filters_}, {filters_, 1}, {0, 1}, {filters_, 1}},
                call.output, call.parameters[1], call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (float* d = call.d_parameters[0]) {
      conv_->Backward({.dy = call.inputs[0], .dkernel = d, .x = call.d_output});
    }
    if (bias_ && call.d_parameters[1] != nullptr) {
      ops_.SumRows(rows_, filters_, call.d_output, call.d_parameters[1]);
    }
    if (float* d = call.d_inputs[0]) {
      conv_->Forward(call.d_output, call.parameters[0], nullptr, d);
    }
  }

 private:
  Ops& ops_;
  const std::unique_ptr<Conv2D> conv_;
  const int64_t rows_, filters_;
  const bool bias_;
};

class ConvTransposeLayer : public Layer {
 public:
  ConvTransposeLayer(LayerConfig& config, size_t axes)
      : Layer(config),
        axes_(axes),
        filters_(config.RequiredInteger("filters", 1)),
        window_(config, axes, "kernel_size", "dilation_rate", 1),
        bias_(config.Flag("use_bias", true)),
        activation_(config.ActivationOf("activation")),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    if (window_.padding == "causal") config.Fail("padding", "must be \"valid\" or \"same\"");
    if (config.Integer("groups", 1, 1) != 1) config.Fail("groups", "must be 1");
    config.Ignore("rank");
    if (const nlohmann::json* more = config.Value("output_padding")) {
      more_ = more->is_array() ? config.Integers("output_padding")
                               : Shape(axes, config.AnyInteger("output_padding", 0));
      if (more_.size() != axes) config.Fail("output_padding", "must be a number for each axis");
      more_.resize(axes, 0);
      for (size_t i = 0; i < axes; ++i) {
        if (more_[i] < 0 || more_[i] >= Axis(i).stride) {
          config.Fail("output_padding", "must be at least 0 and below strides");
        }
      }
    }
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Window::Axes axes, AxesFor(inputs[0]));
    Shape kernel{axes.width.size, filters_, inputs[0].back()};
    if (axes_ == 2) kernel.insert(kernel.begin(), axes.height.size);
    RETURN_IF_ERROR(Declare(0, "kernel", kernel, kernel_initializer_));
    if (bias_) RETURN_IF_ERROR(Declare(1, "bias", {filters_}, bias_initializer_));
    Shape output{axes.width.in, filters_};
    if (axes_ == 2) output.insert(output.begin(), axes.height.in);
    return output;
  }
  std::optional<Activation> activation_after() const override { return activation_; }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    return Elements(inputs[0]) * window_.height.size * window_.width.size * filters_;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Window::Axes axes, AxesFor(inputs[0]));
    const ConvShape shape{.batch = batch,
                          .in_channels = filters_,
                          .out_channels = inputs[0].back(),
                          .height = axes.height,
                          .width = axes.width};
    ASSIGN_OR_RETURN(auto conv, ops.MakeConv2D(shape));
    return std::make_unique<ConvTransposeKernel>(ops, shape, std::move(conv), bias_);
  }

 private:
  // The window along axis i, as Keras counts axes.
  const WindowAxis& Axis(size_t i) const {
    return axes_ == 2 && i == 0 ? window_.height : window_.width;
  }

  // The convolution from the output to the input; `in` becomes the size of the output.
  absl::StatusOr<Window::Axes> AxesFor(const Shape& input) const {
    if (input.size() != axes_ + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of ", axes_ + 1, " axes, not ", ShapeName(input)));
    }
    Shape output = input;
    for (size_t i = 0; i < axes_; ++i) {
      const WindowAxis& axis = Axis(i);
      const int64_t reach = (axis.size - 1) * axis.dilation + 1;
      int64_t& size = output[i];
      const int64_t between = (size - 1) * axis.stride;
      if (window_.padding == "valid") {
        size = between + reach + (more_.empty() ? std::max(reach, axis.stride) - reach : more_[i]);
      } else {
        size = more_.empty() ? size * axis.stride : between + reach % 2 + more_[i];
      }
    }
    RETURN_IF_ERROR(CheckElements(output));
    ASSIGN_OR_RETURN(const Window::Axes axes, window_.Over(output));
    if (axes.width.out == input[axes_ - 1] && (axes_ == 1 || axes.height.out == input[0])) {
      return axes;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("key \"output_padding\": does not fit an input of ", ShapeName(input)));
  }

  const size_t axes_;
  const int64_t filters_;
  const Window window_;
  const bool bias_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
  Shape more_;  // output_padding; empty: derived
};

}  // namespace

std::unique_ptr<Layer> MakeConvTranspose(LayerConfig& config) {
  const size_t axes = config.class_name() == "Conv2DTranspose" ? 2 : 1;
  return std::make_unique<ConvTransposeLayer>(config, axes);
}

}  // namespace paracord
