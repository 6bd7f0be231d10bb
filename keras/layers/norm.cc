// BatchNormalization, LayerNormalization, and normalisation by constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/masked_moments.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// The indices of a normalisation's optional variables.
struct NormVariables {
  std::optional<size_t> scale, offset, mean, variance;
  template <class Pointer>
  static Pointer At(std::span<const Pointer> all, std::optional<size_t> place) {
    return place.has_value() ? all[*place] : nullptr;
  }
};

// The calls of a layer in a run. Each call updates the moving averages left by its predecessor.
struct Calls {
  double momentum = 0;
  int count = 0;
  // The weight of a call's observation in the combined observation of all calls.
  float Weight(int later) const {
    if (count <= 1) return 1;
    return static_cast<float>((1 - momentum) * std::pow(momentum, later) /
                              (1 - std::pow(momentum, count)));
  }
};

// The bound of a fused ReLU (NormShape::relu); 0 if the activation is another.
float ReluUpTo(const Activation& activation) {
  if (activation.kind == ActivationKind::kRelu) return std::numeric_limits<float>::infinity();
  const bool plain = activation.kind == ActivationKind::kReluGeneral && activation.alpha == 0 &&
                     activation.gamma == 0;
  return plain ? activation.beta : 0;
}

class NormKernel : public Kernel {
 public:
  // `kept` holds mean and variance of the last forward pass. The variance reported to the moving
  // average is multiplied by `correction`. `masked` is null if no mask follows the input.
  NormKernel(Ops& ops, NormShape shape, NormVariables at, bool batch_statistics, Calls calls,
             float correction, DeviceArray kept, std::unique_ptr<MaskedMoments> masked)
      : ops_(ops),
        shape_(shape),
        at_(at),
        batch_statistics_(batch_statistics),
        calls_(calls),
        correction_(correction),
        kept_(std::move(kept)),
        masked_(std::move(masked)),
        count_(shape.by_column ? shape.columns : shape.rows) {}

  void Forward(const ForwardCall& call) override {
    const float* mean = kept_.get();
    const float* variance = kept_.get() + count_;
    from_batch_ = !at_.mean.has_value() || (call.training && batch_statistics_);
    if (from_batch_ && masked_ != nullptr) {
      masked_->Forward(call.inputs[0], call.inputs[1], kept_.get(), kept_.get() + count_);
    } else if (from_batch_) {
      ops_.Moments(shape_, call.inputs[0], kept_.get(), kept_.get() + count_);
    } else {
      mean = call.parameters[*at_.mean];
      variance = call.parameters[*at_.variance];
    }
    ops_.Normalize(shape_, call.inputs[0], mean, variance,
                   NormVariables::At(call.parameters, at_.scale),
                   NormVariables::At(call.parameters, at_.offset), call.output);
  }

  void Backward(const BackwardCall& call) override {
    const float* mean = from_batch_ ? kept_.get() : call.parameters[*at_.mean];
    const float* variance = from_batch_ ? kept_.get() + count_ : call.parameters[*at_.variance];
    const float* scale = NormVariables::At(call.parameters, at_.scale);
    float* d_scale = NormVariables::At(call.d_parameters, at_.scale);
    float* d_offset = NormVariables::At(call.d_parameters, at_.offset);
    if (from_batch_ && masked_ != nullptr) {
      if (shape_.relu > 0) {  // output and input are inside the bounds alike
        ops_.ActivateBackward({ActivationKind::kReluGeneral, 0, shape_.relu}, shape_.rows,
                              shape_.columns, call.output, call.output, call.d_output,
                              call.d_output);
      }
      masked_->Backward(call.inputs[0], mean, variance, scale, call.d_output, call.d_inputs[0],
                        d_scale, d_offset);
    } else {
      ops_.NormalizeBackward(shape_, !from_batch_, call.inputs[0], mean, variance, scale,
                             NormVariables::At(call.parameters, at_.offset), call.d_output,
                             call.d_inputs[0], d_scale, d_offset);
    }
    // The "gradient" of a moving average is the observation for its update.
    const float weight = call.share * calls_.Weight(call.later_calls);
    if (float* observed = NormVariables::At(call.d_parameters, at_.mean)) {
      ops_.Affine(count_, weight, 0, mean, observed);
    }
    if (float* observed = NormVariables::At(call.d_parameters, at_.variance)) {
      ops_.Affine(count_, weight * correction_, 0, variance, observed);
    }
  }

 private:
  Ops& ops_;
  const NormShape shape_;
  const NormVariables at_;
  const bool batch_statistics_;
  const Calls calls_;
  const float correction_;
  const DeviceArray kept_;
  const std::unique_ptr<MaskedMoments> masked_;
  const int64_t count_;
  bool from_batch_ = false;
};

class NormLayer : public Layer {
 public:
  NormLayer(LayerConfig& config, bool batch)
      : Layer(config),
        batch_(batch),
        observes_(trainable() && config.mode() != CallMode::kInference),
        keras2_(config.keras2()),
        scale_(config.Flag("scale", true)),
        center_(config.Flag("center", true)),
        epsilon_(static_cast<float>(config.Number("epsilon", 1e-3))),
        momentum_(batch ? config.Number("momentum", 0.99) : 0),
        gamma_(config.InitializerOf("gamma_initializer", "ones")),
        beta_(config.InitializerOf("beta_initializer", "zeros")),
        moving_mean_(config.InitializerOf("moving_mean_initializer", "zeros")),
        moving_variance_(config.InitializerOf("moving_variance_initializer", "ones")) {
    if (const nlohmann::json* axis = config.Value("axis")) {
      axes_ = axis->is_array() ? config.Integers("axis")
                               : std::vector<int64_t>{config.AnyInteger("axis", -1)};
    }
    if (batch && !(momentum_ >= 0 && momentum_ <= 1)) {
      config.Fail("momentum", "must be from 0 to 1");
    }
    config.Ignore("renorm_momentum");
    fused_ = config.Flag("fused", true);
  }

  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool takes_masks() const override { return batch_; }
  bool one_mode() const override { return batch_; }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t first, FirstAxis(inputs[0]));
    if (UsesMask(inputs) && !Covers(inputs[1], inputs[0])) {
      return WrongMask(inputs[1], inputs[0]);
    }
    const Shape shape(inputs[0].begin() + static_cast<std::ptrdiff_t>(first), inputs[0].end());
    at_ = {};
    size_t index = 0;
    const auto declare = [&](const char* name, const Initializer& initializer,
                             std::optional<size_t>& place) {
      place = index;
      return Declare(index++, name, shape, initializer);
    };
    if (scale_) RETURN_IF_ERROR(declare("gamma", gamma_, at_.scale));
    if (center_) RETURN_IF_ERROR(declare("beta", beta_, at_.offset));
    if (!batch_) return inputs[0];
    RETURN_IF_ERROR(declare("moving_mean", moving_mean_, at_.mean));
    RETURN_IF_ERROR(declare("moving_variance", moving_variance_, at_.variance));
    if (observes_ && momentum_ < 1) {
      // Each call updates the averages in turn. A factor of 0 would turn the moving averages into
      // constants; the least positive number has the effect of 0.
      const double kept =
          std::max(std::pow(momentum_, ++calls_), std::numeric_limits<double>::min());
      MakeMoving(*at_.mean, kept);
      MakeMoving(*at_.variance, kept);
    } else {
      MakeConstant(*at_.mean);
      MakeConstant(*at_.variance);
    }
    return inputs[0];
  }

  int64_t Arithmetic(std::span<const Shape>, const Shape& output) const override {
    return 4 * Elements(output);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return Make(ops, batch, inputs, 0);
  }
  bool ends_in(const Activation& activation) const override {
    return batch_ && ReluUpTo(activation) > 0;
  }
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape> inputs) const override {
    return batch_ && !UsesMask(inputs) ? Bfloat16::kTaken : Bfloat16::kNever;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(const KernelForm& form, Ops& ops,
                                                       int64_t batch,
                                                       std::span<const Shape> inputs) override {
    return Make(ops, batch, inputs, form.ends_in.has_value() ? ReluUpTo(*form.ends_in) : 0);
  }

 private:
  absl::StatusOr<std::unique_ptr<Kernel>> Make(Ops& ops, int64_t batch,
                                               std::span<const Shape> inputs, float relu) const {
    ASSIGN_OR_RETURN(const size_t first, FirstAxis(inputs[0]));
    NormShape shape{.by_column = batch_, .rows = batch, .columns = 1, .epsilon = epsilon_};
    for (size_t i = 0; i < inputs[0].size(); ++i) {
      (i < first ? shape.rows : shape.columns) *= inputs[0][i];
    }
    ASSIGN_OR_RETURN(auto kept, ops.Allocate(2 * (batch_ ? shape.columns : shape.rows)));
    std::unique_ptr<MaskedMoments> masked;
    if (UsesMask(inputs) && observes_) {
      ASSIGN_OR_RETURN(masked, MaskedMoments::Make(ops, shape, SpreadMask(batch, inputs)));
    }
    const bool unbiased = Fused(inputs[0]) && shape.rows > 1;
    const float correction =
        unbiased ? static_cast<float>(shape.rows) / static_cast<float>(shape.rows - 1) : 1.f;
    shape.relu = relu;  // the masked moments do not handle relu
    return std::make_unique<NormKernel>(ops, shape, at_, observes_, Calls{momentum_, calls_},
                                        correction, std::move(kept), std::move(masked));
  }

  // True if the mask covers all axes but the last, or all, with size 1 on constant axes.
  static bool Covers(const Shape& mask, const Shape& input) {
    bool covers = mask.size() == input.size() || mask.size() + 1 == input.size();
    for (size_t i = 0; covers && i < mask.size(); ++i) {
      covers = mask[i] == input[i] || (mask[i] == 1 && mask.size() == input.size());
    }
    return covers;
  }
  static Walk SpreadMask(int64_t batch, std::span<const Shape> inputs) {
    Shape mask = inputs[1];
    mask.resize(inputs[0].size(), 1);
    Walk walk;
    walk.dims = WithBatch(batch, inputs[0]);
    walk.a = BroadcastSteps(batch, mask, inputs[0]);
    walk.y = RowMajor(walk.dims);
    return Shorten(std::move(walk));
  }
  // Keras 2's fused kernel for images and volumes estimates the variance without bias and ignores
  // masks.
  bool Fused(const Shape& input) const {
    return keras2_ && fused_ && (input.size() == 3 || input.size() == 4);
  }
  bool UsesMask(std::span<const Shape> inputs) const {
    return batch_ && inputs.size() > 1 && !inputs[1].empty() && !Fused(inputs[0]);
  }
  // The batch's statistics keep the last axis; an example's statistics are over the last axes.
  absl::StatusOr<size_t> FirstAxis(const Shape& input) const {
    if (!batch_ || axes_.size() == 1) return FirstOfLastAxes(axes_, input);
    return absl::InvalidArgumentError("key \"axis\": must be one axis, the last");
  }

  const bool batch_;
  const bool observes_;  // uses the batch's statistics in training and updates the averages
  const bool keras2_, scale_, center_;
  const float epsilon_;
  const double momentum_;
  const Initializer gamma_, beta_, moving_mean_, moving_variance_;
  std::vector<int64_t> axes_{-1};
  bool fused_ = true;
  NormVariables at_;
  int calls_ = 0;
};

// Computes (x - mean) / max(sqrt(variance), 1e-7) with constants from the file, or with the
// variables `mean` and `variance` (and the unused `count`).
class NormalizationLayer : public Layer {
 public:
  explicit NormalizationLayer(LayerConfig& config) : Layer(config) {
    if (const nlohmann::json* axis = config.Value("axis")) {
      axes_ = axis->is_array() ? config.Integers("axis")
                               : std::vector<int64_t>{config.AnyInteger("axis", -1)};
    }
    mean_ = Numbers(config, "mean");
    variance_ = Numbers(config, "variance");
    invert_ = config.Flag("invert", false);
    mask_rule_ = config.keras2() ? MaskRule::kStop : MaskRule::kPass;
  }

  MaskRule mask_rule() const override { return mask_rule_; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (!axes_.empty()) RETURN_IF_ERROR(FirstOfLastAxes(axes_, inputs[0]).status());
    const Shape shape = ColumnsOf(inputs[0]);
    const int64_t columns = Elements(shape);
    const auto fits = [&](const std::vector<float>& v) {
      return v.size() == 1 || v.size() == static_cast<size_t>(columns);
    };
    if (!mean_.empty()) {
      if (fits(mean_) && fits(variance_)) return inputs[0];
      return absl::InvalidArgumentError("keys \"mean\" and \"variance\" do not fit the input");
    }
    Initializer zeros, ones;
    zeros.set_name("zeros");
    ones.set_name("ones");
    RETURN_IF_ERROR(Declare(0, "mean", shape, zeros));
    RETURN_IF_ERROR(Declare(1, "variance", shape, ones));
    RETURN_IF_ERROR(Declare(2, "count", {}, zeros));
    for (size_t i = 0; i < 3; ++i) MakeConstant(i);
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t columns = Elements(ColumnsOf(inputs[0]));
    const int64_t rows = batch * Elements(inputs[0]) / columns;
    ASSIGN_OR_RETURN(auto constants, ops.Allocate(4 * columns));
    ops.Fill(columns, 0, constants.get() + 2 * columns);
    ops.Fill(columns, 1, constants.get() + 3 * columns);
    for (int64_t c = 0; c < columns && !mean_.empty(); ++c) {
      const auto at = static_cast<size_t>(c);
      ops.Fill(1, mean_.size() == 1 ? mean_[0] : mean_[at], constants.get() + c);
      ops.Fill(1, variance_.size() == 1 ? variance_[0] : variance_[at],
               constants.get() + columns + c);
    }
    return std::make_unique<ConstantKernel>(ops, rows, columns, !mean_.empty(), invert_,
                                            std::move(constants));
  }

 private:
  class ConstantKernel : public Kernel {
   public:
    ConstantKernel(Ops& ops, int64_t rows, int64_t columns, bool own, bool invert,
                   DeviceArray constants)
        : ops_(ops),
          shape_{true, rows, columns, 0},
          own_(own),
          invert_(invert),
          constants_(std::move(constants)) {}
    void Forward(const ForwardCall& call) override {
      const float* mean = own_ ? Kept(0) : call.parameters[0];
      const float* variance = Variance(call.parameters);
      if (invert_) {
        return ops_.Normalize(shape_, call.inputs[0], Kept(2), Kept(3), variance, mean,
                              call.output);
      }
      ops_.Normalize(shape_, call.inputs[0], mean, variance, nullptr, nullptr, call.output);
    }
    void Backward(const BackwardCall& call) override {
      const float* mean = own_ ? Kept(0) : call.parameters[0];
      const float* variance = Variance(call.parameters);
      ops_.NormalizeBackward(shape_, true, call.inputs[0], invert_ ? Kept(2) : mean,
                             invert_ ? Kept(3) : variance, invert_ ? variance : nullptr, nullptr,
                             call.d_output, call.d_inputs[0], nullptr, nullptr);
    }

   private:
    // Rows: mean, variance, zeros and ones.
    float* Kept(int64_t row) { return constants_.get() + row * shape_.columns; }
    // max(sqrt(v), 1e-7) is sqrt(max(v, 1e-14)); the inverse normalisation multiplies by the root.
    const float* Variance(std::span<const float* const> parameters) {
      float* kept = Kept(1);
      if (own_ && invert_ && rooted_) return kept;
      const float* given = own_ ? kept : parameters[1];
      ops_.Activate({ActivationKind::kClip, 1e-14f, 3e38f}, 1, shape_.columns, given, kept);
      if (invert_) ops_.Activate({ActivationKind::kPower, 1, 0.5f}, 1, shape_.columns, kept, kept);
      rooted_ = true;
      return kept;
    }
    Ops& ops_;
    const NormShape shape_;
    const bool own_, invert_;
    const DeviceArray constants_;
    bool rooted_ = false;
  };

  // The axes with separate numbers, the last of the input.
  Shape ColumnsOf(const Shape& input) const {
    return Shape(input.end() - static_cast<std::ptrdiff_t>(axes_.size()), input.end());
  }
  // Collects a number, or nested lists in which all axes but one have size 1.
  static void Flat(const nlohmann::json& value, std::vector<float>& numbers) {
    if (value.is_number()) return numbers.push_back(value.get<float>());
    if (!value.is_array()) return;
    for (const auto& entry : value) Flat(entry, numbers);
  }
  static std::vector<float> Numbers(LayerConfig& config, const char* key) {
    std::vector<float> numbers;
    if (const nlohmann::json* value = config.Value(key)) Flat(*value, numbers);
    return numbers;
  }

  bool invert_ = false;
  MaskRule mask_rule_ = MaskRule::kPass;
  std::vector<int64_t> axes_;  // empty: a single number for all elements
  std::vector<float> mean_, variance_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNormalization(LayerConfig& config) {
  return std::make_unique<NormLayer>(config, true);
}
std::unique_ptr<Layer> MakeLayerNormalization(LayerConfig& config) {
  return std::make_unique<NormLayer>(config, false);
}
std::unique_ptr<Layer> MakeNormalization(LayerConfig& config) {
  return std::make_unique<NormalizationLayer>(config);
}

}  // namespace paracord
