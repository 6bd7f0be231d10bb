// Convolution and pooling over volumes, (depth, height, width, channels), by operations over
// images: a convolution sums over the depth of the window; a pooling pools images and then depths.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"
#include "keras/layers/window.h"

namespace paracord {
namespace {

// A Window (window.h) with a third axis in front.
class VolumeWindow {
 public:
  struct Axes {
    WindowAxis depth, height, width;
  };
  VolumeWindow(LayerConfig& config, const char* size_key, bool dilated, bool strides_as_size)
      : padding_(config.Choice("padding", "valid", {"valid", "same"})) {
    config.Choice("data_format", "channels_last", {"channels_last"});
    if (!config.Has(size_key)) config.Fail(size_key, "is missing");
    const Shape size = Sizes(config, size_key, Shape(3, 1));
    const Shape stride = Sizes(config, "strides", strides_as_size ? size : Shape(3, 1));
    const Shape dilation = dilated ? Sizes(config, "dilation_rate", Shape(3, 1)) : Shape(3, 1);
    WindowAxis* const axes[] = {&axes_.depth, &axes_.height, &axes_.width};
    bool strided = false, wide = false;
    for (size_t i = 0; i < 3; ++i) {
      *axes[i] = {.size = size[i], .stride = stride[i], .dilation = dilation[i]};
      strided = strided || stride[i] > 1;
      wide = wide || dilation[i] > 1;
    }
    if (strided && wide) {
      // Keras refuses the combination, too.
      config.Fail("strides", "above 1 cannot be combined with dilation_rate above 1");
    }
  }
  absl::StatusOr<Axes> Over(const Shape& input) const {
    if (input.size() != 4) {
      return absl::InvalidArgumentError(absl::StrCat(
          "needs an input of (depth, height, width, channels), not ", ShapeName(input)));
    }
    Axes axes = axes_;
    axes.depth.in = input[0];
    axes.height.in = input[1];
    axes.width.in = input[2];
    RETURN_IF_ERROR(SlideWindow("depth", padding_, axes.depth));
    RETURN_IF_ERROR(SlideWindow("height", padding_, axes.height));
    RETURN_IF_ERROR(SlideWindow("width", padding_, axes.width));
    return axes;
  }
  int64_t Elements() const { return axes_.depth.size * axes_.height.size * axes_.width.size; }

 private:
  static Shape Sizes(LayerConfig& config, const char* key, Shape fallback) {
    const nlohmann::json* value = config.Value(key);
    if (value == nullptr) return fallback;
    Shape sizes = value->is_array() ? config.Integers(key) : Shape(3, config.AnyInteger(key, 1));
    bool good = sizes.size() == 3;
    for (const int64_t size : sizes) good = good && size >= 1 && size <= 1'000'000;
    if (good) return sizes;
    config.Fail(key, "must be one or three positive whole numbers");
    return fallback;
  }

  const std::string padding_;
  Axes axes_;
};

class VolumeConvKernel : public Kernel {
 public:
  VolumeConvKernel(Ops& ops, const WindowAxis& depth, const ConvShape& slice, bool bias)
      : ops_(ops), depth_(depth), slice_(slice), bias_(bias) {
    images_ = slice_.batch * depth_.out;
    image_ = slice_.height.in * slice_.width.in * slice_.in_channels;
    out_ = images_ * slice_.height.out * slice_.width.out * slice_.out_channels;
    tap_ = slice_.height.size * slice_.width.size * (slice_.in_channels / slice_.groups) *
           slice_.out_channels;
    padded_ = std::max(depth_.in + depth_.pad_before + depth_.pad_after,
                       (depth_.out - 1) * depth_.stride + (depth_.size - 1) * depth_.dilation + 1);
  }
  absl::Status Prepare() {
    RETURN_IF_ERROR(CheckElements({slice_.batch, padded_, image_}));
    ConvShape shape = slice_;
    shape.batch = images_;
    ASSIGN_OR_RETURN(conv_, ops_.MakeConv2D(shape));
    ASSIGN_OR_RETURN(x_, ops_.Allocate(slice_.batch * padded_ * image_));
    ASSIGN_OR_RETURN(slices_, ops_.Allocate(images_ * image_));
    ASSIGN_OR_RETURN(part_, ops_.Allocate(out_));
    return absl::OkStatus();
  }
  void Forward(const ForwardCall& call) override {
    ops_.Fill(slice_.batch * padded_ * image_, 0, x_.get());
    ops_.Copy(Pad(), false, call.inputs[0], x_.get() + depth_.pad_before * image_);
    for (int64_t k = 0; k < depth_.size; ++k) {
      ops_.Copy(Take(), false, x_.get() + At(k), slices_.get());
      conv_->Forward(slices_.get(), call.parameters[0] + k * tap_, nullptr,
                     k == 0 ? call.output.float32 : part_.get());
      if (k > 0) ops_.Add(out_, part_.get(), call.output);
    }
    if (!bias_) return;
    const int64_t n = slice_.out_channels;
    ops_.Binary(BinaryKind::kAdd, {{out_ / n, n}, {n, 1}, {0, 1}, {n, 1}}, call.output,
                call.parameters[1], call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (bias_ && call.d_parameters[1] != nullptr) {
      const int64_t n = slice_.out_channels;
      ops_.SumRows(out_ / n, n, call.d_output, call.d_parameters[1]);
    }
    for (int64_t k = 0; k < depth_.size && call.d_parameters[0] != nullptr; ++k) {
      ops_.Copy(Take(), false, x_.get() + At(k), slices_.get());
      conv_->Backward(
          {.dy = call.d_output, .dkernel = call.d_parameters[0] + k * tap_, .x = slices_.get()});
    }
    if (call.d_inputs[0] == nullptr) return;
    ops_.Fill(slice_.batch * padded_ * image_, 0, x_.get());
    const Walk take = Take();
    for (int64_t k = 0; k < depth_.size; ++k) {
      conv_->Backward(
          {.dy = call.d_output, .dx = slices_.get(), .kernel = call.parameters[0] + k * tap_});
      ops_.Copy({take.dims, take.y, {}, take.a}, true, slices_.get(), x_.get() + At(k));
    }
    const Walk pad = Pad();
    ops_.Copy({pad.dims, pad.y, {}, pad.a}, false, x_.get() + depth_.pad_before * image_,
              call.d_inputs[0]);
  }

 private:
  // Walks from the input into the padded input, the source of a tap's slices.
  Walk Pad() const {
    const int64_t n = depth_.in * image_;
    return {{slice_.batch, n}, {n, 1}, {}, {padded_ * image_, 1}};
  }
  Walk Take() const {
    return {{slice_.batch, depth_.out, image_},
            {padded_ * image_, depth_.stride * image_, 1},
            {},
            {depth_.out * image_, image_, 1}};
  }
  int64_t At(int64_t tap) const { return tap * depth_.dilation * image_; }

  Ops& ops_;
  const WindowAxis depth_;
  const ConvShape slice_;  // the convolution of a single depth
  const bool bias_;
  int64_t images_ = 0, image_ = 0, out_ = 0, tap_ = 0, padded_ = 0;
  std::unique_ptr<Conv2D> conv_;
  DeviceArray x_, slices_, part_;  // x_: the padded input, in backward its gradient
};

class VolumeConvLayer : public Layer {
 public:
  explicit VolumeConvLayer(LayerConfig& config)
      : Layer(config),
        filters_(config.RequiredInteger("filters", 1)),
        window_(config, "kernel_size", true, false),
        groups_(config.Integer("groups", 1, 1)),
        bias_(config.Flag("use_bias", true)),
        activation_(config.ActivationOf("activation")),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    if (filters_ % groups_ != 0) config.Fail("groups", "must divide filters");
    config.Ignore("rank");
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const VolumeWindow::Axes axes, window_.Over(inputs[0]));
    const int64_t channels = inputs[0].back();
    if (channels % groups_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"groups\": ", groups_, " does not divide ", channels, " channels"));
    }
    const Shape kernel{axes.depth.size, axes.height.size, axes.width.size, channels / groups_,
                       filters_};
    RETURN_IF_ERROR(Declare(0, "kernel", kernel, kernel_initializer_));
    if (bias_) RETURN_IF_ERROR(Declare(1, "bias", {filters_}, bias_initializer_));
    return Shape{axes.depth.out, axes.height.out, axes.width.out, filters_};
  }
  std::optional<Activation> activation_after() const override { return activation_; }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    return Elements(output) * window_.Elements() * inputs[0].back() / groups_;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const VolumeWindow::Axes axes, window_.Over(inputs[0]));
    const ConvShape slice{.batch = batch,
                          .in_channels = inputs[0].back(),
                          .out_channels = filters_,
                          .groups = groups_,
                          .height = axes.height,
                          .width = axes.width};
    auto kernel = std::make_unique<VolumeConvKernel>(ops, axes.depth, slice, bias_);
    RETURN_IF_ERROR(kernel->Prepare());
    return kernel;
  }

 private:
  const int64_t filters_;
  const VolumeWindow window_;
  const int64_t groups_;
  const bool bias_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
};

class VolumePoolLayer : public Layer {
 public:
  VolumePoolLayer(LayerConfig& config, bool max)
      : Layer(config), max_(max), window_(config, "pool_size", false, true) {}
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const VolumeWindow::Axes axes, window_.Over(inputs[0]));
    return Shape{axes.depth.out, axes.height.out, axes.width.out, inputs[0].back()};
  }
  int64_t Arithmetic(std::span<const Shape>, const Shape& output) const override {
    return Elements(output) * window_.Elements();
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const VolumeWindow::Axes axes, window_.Over(inputs[0]));
    const int64_t channels = inputs[0].back(), depth = axes.depth.in;
    const int64_t image = axes.height.out * axes.width.out * channels;
    ASSIGN_OR_RETURN(auto images,
                     ops.MakePool2D({max_, batch * depth, channels, axes.height, axes.width}));
    const WindowAxis one{.in = 1, .out = 1};
    ASSIGN_OR_RETURN(auto depths, ops.MakePool2D({max_, batch, image, axes.depth, one}));
    ASSIGN_OR_RETURN(auto between, ops.Allocate(batch * depth * image));
    return std::make_unique<VolumePoolKernel>(std::move(images), std::move(depths),
                                              std::move(between));
  }

 private:
  class VolumePoolKernel : public Kernel {
   public:
    VolumePoolKernel(std::unique_ptr<Pool2D> images, std::unique_ptr<Pool2D> depths,
                     DeviceArray between)
        : images_(std::move(images)), depths_(std::move(depths)), between_(std::move(between)) {}
    void Forward(const ForwardCall& call) override {
      images_->Forward(call.inputs[0], between_.get());
      depths_->Forward(between_.get(), call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] == nullptr) return;
      depths_->Backward(call.d_output, between_.get());
      images_->Backward(between_.get(), call.d_inputs[0]);
    }

   private:
    const std::unique_ptr<Pool2D> images_, depths_;
    const DeviceArray between_;
  };

  const bool max_;
  const VolumeWindow window_;
};

}  // namespace

std::unique_ptr<Layer> MakeVolumeConv(LayerConfig& config) {
  return std::make_unique<VolumeConvLayer>(config);
}
std::unique_ptr<Layer> MakeVolumePooling(LayerConfig& config) {
  return std::make_unique<VolumePoolLayer>(config, config.class_name().starts_with("Max"));
}

}  // namespace paracord
