// Activations across elements or rows: glu, PReLU, and a Softmax that may be called with a mask.
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Computes a sigmoid(b), where a and b are the halves of the last axis.
class GluLayer : public Layer {
 public:
  template <class Of>
  explicit GluLayer(const Of& of) : Layer(of) {}
  MaskRule mask_rule() const override { return MaskRule::kPass; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs[0].empty() || inputs[0].back() % 2 != 0) {
      return absl::InvalidArgumentError("activation \"glu\" needs a last axis of even size");
    }
    Shape output = inputs[0];
    output.back() /= 2;
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t n = inputs[0].back() / 2, rows = batch * Elements(inputs[0]) / (2 * n);
    ASSIGN_OR_RETURN(auto gate, ops.Allocate(rows * n));
    ASSIGN_OR_RETURN(auto scratch, ops.Allocate(rows * n));
    return std::make_unique<GluKernel>(ops, rows, n, std::move(gate), std::move(scratch));
  }

 private:
  class GluKernel : public Kernel {
   public:
    GluKernel(Ops& ops, int64_t rows, int64_t n, DeviceArray gate, DeviceArray scratch)
        : ops_(ops), rows_(rows), n_(n), gate_(std::move(gate)), scratch_(std::move(scratch)) {}
    void Forward(const ForwardCall& call) override {
      ops_.Copy({{rows_, n_}, {2 * n_, 1}, {}, {n_, 1}}, false, call.inputs[0] + n_, gate_.get());
      ops_.Activate({ActivationKind::kSigmoid}, rows_, n_, gate_.get(), gate_.get());
      ops_.Binary(BinaryKind::kMultiply, {{rows_, n_}, {2 * n_, 1}, {n_, 1}, {n_, 1}},
                  call.inputs[0], gate_.get(), call.output);
    }
    void Backward(const BackwardCall& call) override {
      float* d = call.d_inputs[0];
      if (d == nullptr) return;
      const Walk half{{rows_, n_}, {n_, 1}, {n_, 1}, {2 * n_, 1}};
      ops_.Binary(BinaryKind::kMultiply, half, call.d_output, gate_.get(), d);
      ops_.Binary(BinaryKind::kMultiply, {{rows_, n_}, {n_, 1}, {2 * n_, 1}, {n_, 1}},
                  call.d_output, call.inputs[0], scratch_.get());
      ops_.ActivateBackward({ActivationKind::kSigmoid}, rows_, n_, nullptr, gate_.get(),
                            scratch_.get(), scratch_.get());
      ops_.Copy({half.dims, half.a, {}, half.y}, false, scratch_.get(), d + n_);
    }

   private:
    Ops& ops_;
    const int64_t rows_, n_;
    const DeviceArray gate_, scratch_;
  };
};

// Computes max(x, 0) + alpha min(x, 0), with an alpha for each element, or shared along some axes.
class PReluLayer : public Layer {
 public:
  explicit PReluLayer(LayerConfig& config)
      : Layer(config), initializer_(config.InitializerOf("alpha_initializer", "zeros")) {
    const nlohmann::json* axes = config.Value("shared_axes");
    if (axes == nullptr) return;
    shared_ = axes->is_array() ? config.Integers("shared_axes")
                               : std::vector<int64_t>{config.AnyInteger("shared_axes", 1)};
  }
  MaskRule mask_rule() const override { return MaskRule::kPass; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    Shape alpha = inputs[0];
    for (const int64_t axis : shared_) {
      if (axis < 1 || axis > static_cast<int64_t>(alpha.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("key \"shared_axes\": ", axis, " is no axis of ", ShapeName(inputs[0])));
      }
      alpha[static_cast<size_t>(axis - 1)] = 1;
    }
    RETURN_IF_ERROR(Declare(0, "alpha", alpha, initializer_));
    alpha_ = alpha;
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape all = WithBatch(batch, inputs[0]);
    std::vector<int64_t> alpha = BroadcastSteps(1, alpha_, inputs[0]);
    alpha[0] = 0;  // alpha has no batch
    const int64_t n = Elements(all);
    ASSIGN_OR_RETURN(auto below, ops.Allocate(n));
    ASSIGN_OR_RETURN(auto scratch, ops.Allocate(n));
    return std::make_unique<PReluKernel>(ops, n, Elements(alpha_),
                                         Shorten({all, RowMajor(all), alpha, RowMajor(all)}),
                                         std::move(below), std::move(scratch));
  }

 private:
  class PReluKernel : public Kernel {
   public:
    // `scale` walks over a tensor and alpha.
    PReluKernel(Ops& ops, int64_t n, int64_t alphas, Walk scale, DeviceArray below,
                DeviceArray scratch)
        : ops_(ops),
          n_(n),
          alphas_(alphas),
          scale_(std::move(scale)),
          below_(std::move(below)),
          scratch_(std::move(scratch)) {}
    void Forward(const ForwardCall& call) override {
      const float* x = call.inputs[0];
      ops_.Activate({ActivationKind::kClip, -kInfinity, 0}, 1, n_, x, below_.get());
      ops_.Activate({ActivationKind::kRelu}, 1, n_, x, scratch_.get());
      ops_.Binary(BinaryKind::kMultiply, scale_, below_.get(), call.parameters[0], call.output);
      ops_.Add(n_, scratch_.get(), call.output);
    }
    void Backward(const BackwardCall& call) override {
      const Walk same{{n_}, {1}, {1}, {1}};
      if (float* d_alpha = call.d_parameters[0]) {
        ops_.Binary(BinaryKind::kMultiply, same, call.d_output, below_.get(), scratch_.get());
        ops_.Fill(alphas_, 0, d_alpha);
        ops_.Copy({scale_.dims, scale_.a, {}, scale_.b}, true, scratch_.get(), d_alpha);
      }
      float* d = call.d_inputs[0];
      if (d == nullptr) return;
      // The slope at zero is zero on both sides, as in Keras.
      float* part = scratch_.get();
      ops_.Affine(n_, -1, 0, below_.get(), part);
      ops_.ActivateBackward({ActivationKind::kRelu}, 1, n_, nullptr, part, call.d_output, part);
      ops_.ActivateBackward({ActivationKind::kRelu}, 1, n_, nullptr, call.inputs[0], call.d_output,
                            d);
      ops_.Binary(BinaryKind::kMultiply, scale_, part, call.parameters[0], part);
      ops_.Add(n_, part, d);
    }

   private:
    Ops& ops_;
    const int64_t n_, alphas_;
    const Walk scale_;
    const DeviceArray below_, scratch_;
  };

  const Initializer initializer_;
  std::vector<int64_t> shared_;
  Shape alpha_;
};

// Softmax along the last axis, or over the last several together; a mask hides elements.
class SoftmaxLayer : public Layer {
 public:
  SoftmaxLayer(const LayerConfig& config, size_t axes, MaskedScore masked)
      : Layer(config), axes_(axes), masked_(masked) {}
  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool takes_masks() const override { return true; }
  std::optional<Activation> activation() const override {
    if (has_mask_ || axes_ > 1) return std::nullopt;
    return Activation{ActivationKind::kSoftmax};
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const Shape &x = inputs[0], mask = inputs.size() > 1 ? inputs[1] : Shape();
    has_mask_ = has_mask_ || !mask.empty();
    if (x.size() < axes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"axis\": an input of ", ShapeName(x), " has not ", axes_, " axes"));
    }
    // Keras aligns the last axes, batch included: the batch of a mask with fewer axes would meet
    // another axis of the input.
    bool fits = mask.empty() || mask.size() == x.size();
    for (size_t i = 0; fits && i < mask.size(); ++i) fits = mask[i] == 1 || mask[i] == x[i];
    if (fits) return x;
    return WrongMask(mask, x);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape& x = inputs[0];
    const bool masked = inputs.size() > 1 && !inputs[1].empty();
    const int64_t keys = Elements(Shape(x.end() - static_cast<std::ptrdiff_t>(axes_), x.end()));
    SoftmaxShape shape{.batch = batch, .queries = Elements(x) / keys, .keys = keys};
    shape.masked = masked_;
    Walk spread;
    DeviceArray mask;
    if (masked) {
      const Shape all = WithBatch(batch, x);
      spread = Shorten({all, BroadcastSteps(batch, inputs[1], x), {}, RowMajor(all)});
      ASSIGN_OR_RETURN(mask, ops.Allocate(Elements(all)));
    }
    return std::make_unique<SoftmaxKernel>(ops, shape, std::move(spread), std::move(mask));
  }

 private:
  class SoftmaxKernel : public Kernel {
   public:
    SoftmaxKernel(Ops& ops, const SoftmaxShape& shape, Walk spread, DeviceArray mask)
        : ops_(ops), shape_(shape), spread_(std::move(spread)), mask_(std::move(mask)) {}
    void Forward(const ForwardCall& call) override {
      if (mask_ != nullptr) ops_.Copy(spread_, false, call.inputs[1], mask_.get());
      ops_.MaskedSoftmax(shape_, mask_.get(), call.inputs[0], call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] == nullptr) return;
      ops_.MaskedSoftmaxBackward(shape_, mask_.get(), call.output, call.d_output, call.d_inputs[0]);
    }

   private:
    Ops& ops_;
    const SoftmaxShape shape_;
    const Walk spread_;
    const DeviceArray mask_;
  };

  const size_t axes_;
  const MaskedScore masked_;
  bool has_mask_ = false;
};

}  // namespace

std::unique_ptr<Layer> MakeGluLayer(const LayerConfig& of) {
  return std::make_unique<GluLayer>(of);
}
std::unique_ptr<Layer> MakeGluLayer(const Layer& of) { return std::make_unique<GluLayer>(of); }
std::unique_ptr<Layer> MakePRelu(LayerConfig& config) {
  return std::make_unique<PReluLayer>(config);
}
std::unique_ptr<Layer> MakeSoftmax(LayerConfig& config) {
  // Axes elsewhere were moved to the end (axis_order.cc).
  const std::vector<int64_t> axes =
      config.Value("axis") != nullptr && config.Value("axis")->is_array()
          ? config.Integers("axis")
          : std::vector<int64_t>{config.AnyInteger("axis", -1)};
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] == static_cast<int64_t>(i) - static_cast<int64_t>(axes.size())) continue;
    config.Fail("axis", "must be axes, each once");
  }
  if (axes.empty()) config.Fail("axis", "must be axes");
  const bool robust = config.Flag("robust_masking", false);
  const auto in_keras2 = robust ? MaskedScore::kReplaced : MaskedScore::kLowered;
  return std::make_unique<SoftmaxLayer>(config, axes.size(),
                                        config.keras2() ? in_keras2 : MaskedScore::kZero);
}

}  // namespace paracord
