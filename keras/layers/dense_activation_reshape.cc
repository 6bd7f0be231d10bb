// Activations, Dense, and reshaping layers: Flatten, Reshape, ExpandDims, Squeeze.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

// A tensor as rows and columns, where the last axis is the columns.
struct Rows {
  Rows(int64_t batch, const Shape& shape)
      : columns(shape.empty() ? 1 : shape.back()),
        rows(columns == 0 ? 0 : batch * Elements(shape) / columns) {}
  int64_t columns, rows;
};

class ActivationLayer : public Layer {
 public:
  // `of` is the layer's config, or the layer that owns the activation.
  template <class Of>
  ActivationLayer(const Of& of, Activation activation) : Layer(of), activation_(activation) {}

  MaskRule mask_rule() const override { return MaskRule::kPass; }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override { return inputs[0]; }
  bool is_view() const override { return activation_.kind == ActivationKind::kLinear; }
  std::optional<Activation> activation() const override { return activation_; }
  // Only activations of neurons; other functions may need all digits.
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape>) const override {
    const ActivationKind kind = activation_.kind;
    const bool takes = kind <= ActivationKind::kGeluTanh || kind == ActivationKind::kReluGeneral ||
                       kind == ActivationKind::kHardSilu || kind == ActivationKind::kMish;
    return takes ? Bfloat16::kIfComputed : Bfloat16::kNever;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return std::make_unique<ActivationKernel>(ops, activation_, Rows(batch, inputs[0]));
  }

 private:
  class ActivationKernel : public Kernel {
   public:
    ActivationKernel(Ops& ops, Activation activation, Rows size)
        : ops_(ops), activation_(activation), size_(size) {}
    void Forward(const ForwardCall& call) override {
      ops_.Activate(activation_, size_.rows, size_.columns, call.inputs[0], call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] == nullptr) return;
      ops_.ActivateBackward(activation_, size_.rows, size_.columns, call.inputs[0], call.output,
                            call.d_output, call.d_inputs[0]);
    }

   private:
    Ops& ops_;
    const Activation activation_;
    const Rows size_;
  };

  const Activation activation_;
};

class TwoActivations : public ActivationLayer {
 public:
  TwoActivations(const LayerConfig& of, Activation first, Activation then)
      : ActivationLayer(of, first), then_(then) {}
  std::optional<Activation> activation_after() const override { return then_; }
  std::optional<Activation> activation() const override { return std::nullopt; }

 private:
  const Activation then_;
};

class PenalisedIdentity : public ActivationLayer {
 public:
  PenalisedIdentity(const LayerConfig& config, ActivityPenalty penalty)
      : ActivationLayer(config, Activation{}) {
    SetActivity(penalty);
  }
};

// Keras 2's Identity and Rescaling, which end a mask.
class MasklessActivation : public ActivationLayer {
 public:
  using ActivationLayer::ActivationLayer;
  MaskRule mask_rule() const override { return MaskRule::kStop; }
};

class DenseKernel : public Kernel {
 public:
  struct Parts {
    std::unique_ptr<Matmul> forward, input, kernel;
  };
  DenseKernel(Ops& ops, Rows output, bool bias, bool relu, Parts parts)
      : ops_(ops), output_(output), bias_(bias), relu_(relu), parts_(std::move(parts)) {}

  void Forward(const ForwardCall& call) override {
    parts_.forward->Run(call.inputs[0], call.Parameter(0), bias_ ? call.parameters[1] : nullptr,
                        call.output);
  }
  void Backward(const BackwardCall& call) override {
    const auto [columns, rows] = output_;
    if (relu_) {
      ops_.ActivateBackward({ActivationKind::kRelu, 0}, rows, columns, nullptr, call.output,
                            call.d_output, call.d_output);
    }
    if (call.d_parameters[0] != nullptr) {
      parts_.kernel->Run(call.inputs[0], call.d_output, nullptr, call.d_parameters[0]);
    }
    if (bias_ && call.d_parameters[1] != nullptr) {
      ops_.SumRows(rows, columns, call.d_output, call.d_parameters[1]);
    }
    if (call.d_inputs[0] != nullptr) {
      parts_.input->Run(call.d_output, call.Parameter(0), nullptr, call.d_inputs[0]);
    }
  }

 private:
  Ops& ops_;
  const Rows output_;
  const bool bias_, relu_;
  const Parts parts_;
};

// Computes activation(x W + b) along the last axis.
class DenseLayer : public Layer {
 public:
  explicit DenseLayer(LayerConfig& config)
      : Layer(config),
        units_(config.RequiredInteger("units", 1)),
        bias_(config.Flag("use_bias", true)),
        activation_(config.ActivationOf("activation")),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {}

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs[0].empty()) return absl::InvalidArgumentError("needs an input with at least 1 axis");
    const int64_t in = inputs[0].back();
    RETURN_IF_ERROR(Declare(0, "kernel", {in, units_}, kernel_initializer_));
    MakeOperand(0);
    if (bias_) RETURN_IF_ERROR(Declare(1, "bias", {units_}, bias_initializer_));
    Shape output = inputs[0];
    output.back() = units_;
    return output;
  }
  MaskRule mask_rule() const override { return MaskRule::kPass; }
  std::optional<Activation> activation_after() const override {
    if (fused()) return std::nullopt;
    return activation_;
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    return Elements(output) * inputs[0].back();
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Rows size(batch, inputs[0]);
    const int64_t m = size.rows, k = size.columns, n = units_;
    DenseKernel::Parts parts;
    ASSIGN_OR_RETURN(parts.forward, ops.MakeMatmul({m, k, n, false, false, bias_, fused()}));
    ASSIGN_OR_RETURN(parts.kernel, ops.MakeMatmul({k, m, n, true, false, false, false}));
    ASSIGN_OR_RETURN(parts.input, ops.MakeMatmul({m, n, k, false, true, false, false}));
    Shape output = inputs[0];
    output.back() = n;
    return std::make_unique<DenseKernel>(ops, Rows(batch, output), bias_, fused(),
                                         std::move(parts));
  }

 private:
  bool fused() const { return activation_.kind == ActivationKind::kRelu; }

  const int64_t units_;
  const bool bias_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
};

// A view: the input's memory under another shape. Flatten, Reshape, and the operations Reshape,
// ExpandDims and Squeeze are views.
class ViewLayer : public Layer {
 public:
  enum class Kind { kFlatten, kReshape, kExpand, kSqueeze };
  ViewLayer(LayerConfig& config, Kind kind, Shape target, int64_t axis)
      : Layer(config), kind_(kind), target_(std::move(target)), axis_(axis) {}

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const Shape& input = inputs[0];
    if (kind_ == Kind::kFlatten) return Shape{Elements(input)};
    if (kind_ == Kind::kReshape) return Reshaped(input);
    Shape output = input;
    const auto rank = static_cast<int64_t>(input.size()) + (kind_ == Kind::kExpand ? 2 : 1);
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    const auto at = output.begin() + (axis - 1);
    if (axis >= 1 && axis < rank && (kind_ == Kind::kExpand || *at == 1)) {
      kind_ == Kind::kExpand ? (void)output.insert(at, 1) : (void)output.erase(at);
      return output;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("key \"axis\": ", axis_, " does not fit an input of ", ShapeName(input)));
  }
  bool is_view() const override { return true; }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops&, int64_t,
                                                     std::span<const Shape>) override {
    return absl::InternalError("a view has no kernel");
  }

 private:
  absl::StatusOr<Shape> Reshaped(const Shape& input) const {
    const int64_t elements = Elements(input);
    Shape output = target_;
    int64_t known = 1, unknown = 0;
    for (const int64_t dim : output) {
      if (dim < 0) {
        ++unknown;
      } else {
        RETURN_IF_ERROR(CheckElements({known, dim}));
        known *= dim;
      }
    }
    if (unknown == 1 && known > 0 && elements % known == 0) {
      *std::find(output.begin(), output.end(), -1) = elements / known;
    }
    if (unknown > 1 || CheckElements(output) != absl::OkStatus() || Elements(output) != elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot reshape ", ShapeName(input), " into ", ShapeName(target_)));
    }
    return output;
  }

  const Kind kind_;
  const Shape target_;
  const int64_t axis_;
};

}  // namespace

std::unique_ptr<Layer> MakeActivation(LayerConfig& config) {
  Activation activation;
  if (!config.ActivationOfClass(activation)) {
    if (!config.Has("activation")) config.Fail("activation", "is missing");
    activation = config.ActivationOf("activation");
  }
  return MakeActivationLayer(config, activation);
}
std::unique_ptr<Layer> MakeActivationLayer(const LayerConfig& of, Activation activation) {
  if (activation.kind == ActivationKind::kGlu) return MakeGluLayer(of);
  return std::make_unique<ActivationLayer>(of, activation);
}
std::unique_ptr<Layer> MakeActivationLayer(const Layer& of, Activation activation) {
  if (activation.kind == ActivationKind::kGlu) return MakeGluLayer(of);
  return std::make_unique<ActivationLayer>(of, activation);
}
std::unique_ptr<Layer> MakeActivations(const LayerConfig& of, Activation first, Activation then) {
  return std::make_unique<TwoActivations>(of, first, then);
}
std::unique_ptr<Layer> MakeActivityRegularization(LayerConfig& config) {
  const auto l1 = static_cast<float>(config.Number("l1", 0));
  const auto l2 = static_cast<float>(config.Number("l2", 0));
  return std::make_unique<PenalisedIdentity>(config, ActivityPenalty{l1, l2});
}
std::unique_ptr<Layer> MakeIdentity(LayerConfig& config) {
  if (config.keras2() && config.class_name() == "Identity") {
    return std::make_unique<MasklessActivation>(config, Activation{});
  }
  return std::make_unique<ActivationLayer>(config, Activation{});
}
std::unique_ptr<Layer> MakeDense(LayerConfig& config) {
  return std::make_unique<DenseLayer>(config);
}
std::unique_ptr<Layer> MakeFlatten(LayerConfig& config) {
  // Keras uses the key only to order axes; images are channels_last here.
  config.Choice("data_format", "channels_last", {"channels_last"});
  return std::make_unique<ViewLayer>(config, ViewLayer::Kind::kFlatten, Shape(), 0);
}
// y = scale x + offset
std::unique_ptr<Layer> MakeRescaling(LayerConfig& config) {
  for (const char* key : {"scale", "offset"}) {
    const nlohmann::json* value = config.Value(key);
    if (value != nullptr && (value->is_array() || value->is_object())) {
      return MakeArrayRescaling(config);
    }
  }
  const auto scale = static_cast<float>(config.Number("scale", 1));
  const auto offset = static_cast<float>(config.Number("offset", 0));
  const Activation affine{ActivationKind::kAffine, scale, offset, 0};
  if (config.keras2()) return std::make_unique<MasklessActivation>(config, affine);
  return MakeActivationLayer(config, affine);
}
std::unique_ptr<Layer> MakeReshape(LayerConfig& config) {
  const bool operation = config.class_name() == "Reshape" && !config.Has("target_shape");
  const char* key = !operation ? "target_shape" : config.keras2() ? "shape" : "newshape";
  if (!config.Has(key)) config.Fail(key, "is missing");
  Shape target = config.Dims(key);
  if (operation) {
    if (target.empty() || target[0] != -1) config.Fail(key, "must begin with -1, for the batch");
    if (!target.empty()) target.erase(target.begin());
  }
  return std::make_unique<ViewLayer>(config, ViewLayer::Kind::kReshape, std::move(target), 0);
}
std::unique_ptr<Layer> MakeAxisView(LayerConfig& config) {
  const bool expand = config.class_name() == "ExpandDims";
  if (!config.Has("axis")) config.Fail("axis", "is missing");
  return std::make_unique<ViewLayer>(config,
                                     expand ? ViewLayer::Kind::kExpand : ViewLayer::Kind::kSqueeze,
                                     Shape(), config.AnyInteger("axis", -1));
}

}  // namespace paracord
