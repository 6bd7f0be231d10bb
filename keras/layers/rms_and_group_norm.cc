// Normalisations of each example without means (RMS, unit length), and over groups of channels.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// Computes x / sqrt(mean of squares + epsilon) along the last axes, times a scale; or unit length.
class RmsLayer : public Layer {
 public:
  RmsLayer(LayerConfig& config, bool unit)
      : Layer(config), unit_(unit), epsilon_(config.Number("epsilon", 1e-6)) {
    if (const nlohmann::json* axis = config.Value("axis")) {
      axes_ = axis->is_array() ? config.Integers("axis")
                               : std::vector<int64_t>{config.AnyInteger("axis", -1)};
    }
  }
  MaskRule mask_rule() const override { return unit_ ? MaskRule::kPass : MaskRule::kStop; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape shape, LastAxes(inputs[0]));
    Initializer ones;
    ones.set_name("ones");
    if (!unit_) RETURN_IF_ERROR(Declare(0, "scale", shape, ones));
    columns_ = Elements(shape);
    return inputs[0];
  }
  std::optional<Activation> activation_after() const override {
    if (!unit_) return std::nullopt;
    return Activation{ActivationKind::kAffine, 1.f / std::sqrt(static_cast<float>(columns_))};
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape last, LastAxes(inputs[0]));
    const int64_t columns = Elements(last);
    NormShape shape;
    shape.rows = batch * Elements(inputs[0]) / columns;
    shape.columns = columns;
    shape.centred = false;
    // Keras' least length is 1e-12.
    shape.epsilon = unit_ ? 1e-24f / static_cast<float>(columns) : static_cast<float>(epsilon_);
    ASSIGN_OR_RETURN(auto kept, ops.Allocate(2 * shape.rows));
    return std::make_unique<RmsKernel>(ops, shape, !unit_, std::move(kept));
  }

 private:
  class RmsKernel : public Kernel {
   public:
    RmsKernel(Ops& ops, const NormShape& shape, bool scale, DeviceArray kept)
        : ops_(ops), shape_(shape), scale_(scale), kept_(std::move(kept)) {}
    void Forward(const ForwardCall& call) override {
      ops_.Moments(shape_, call.inputs[0], kept_.get(), kept_.get() + shape_.rows);
      ops_.Normalize(shape_, call.inputs[0], kept_.get(), kept_.get() + shape_.rows,
                     scale_ ? call.parameters[0] : nullptr, nullptr, call.output);
    }
    void Backward(const BackwardCall& call) override {
      ops_.NormalizeBackward(shape_, false, call.inputs[0], kept_.get(), kept_.get() + shape_.rows,
                             scale_ ? call.parameters[0] : nullptr, nullptr, call.d_output,
                             call.d_inputs[0], scale_ ? call.d_parameters[0] : nullptr, nullptr);
    }

   private:
    Ops& ops_;
    const NormShape shape_;
    const bool scale_;
    const DeviceArray kept_;
  };

  // The normalised axes of the input.
  absl::StatusOr<Shape> LastAxes(const Shape& input) const {
    ASSIGN_OR_RETURN(const size_t first, FirstOfLastAxes(axes_, input));
    return Shape(input.begin() + static_cast<std::ptrdiff_t>(first), input.end());
  }

  const bool unit_;
  const double epsilon_;
  std::vector<int64_t> axes_{-1};
  int64_t columns_ = 1;  // columns of the last call
};

// Mean and variance of each example over places and a group of channels; each channel has a scale
// and an offset.
class GroupNormKernel : public Kernel {
 public:
  struct Plan {
    int64_t batch = 0, places = 0, groups = 0, channels = 0;
    float epsilon = 0;
    bool scale = true, offset = true;
    int64_t n() const { return batch * places * channels; }
  };
  GroupNormKernel(Ops& ops, const Plan& plan) : ops_(ops), p_(plan) {
    const int64_t each = p_.channels / p_.groups;
    shape_.rows = p_.batch * p_.groups;
    shape_.columns = p_.places * each;
    shape_.epsilon = p_.epsilon;
    to_groups_ = Shorten({{p_.batch, p_.groups, p_.places, each},
                          {p_.places * p_.channels, each, p_.channels, 1},
                          {},
                          {p_.places * p_.channels, p_.places * each, each, 1}});
  }
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(x_, ops_.Allocate(p_.n()));
    ASSIGN_OR_RETURN(d_, ops_.Allocate(p_.n()));
    ASSIGN_OR_RETURN(normal_, ops_.Allocate(p_.n()));
    ASSIGN_OR_RETURN(kept_, ops_.Allocate(2 * shape_.rows));
    return absl::OkStatus();
  }
  void Forward(const ForwardCall& call) override {
    ops_.Copy(to_groups_, false, call.inputs[0], x_.get());
    ops_.Moments(shape_, x_.get(), kept_.get(), kept_.get() + shape_.rows);
    ops_.Normalize(shape_, x_.get(), kept_.get(), kept_.get() + shape_.rows, nullptr, nullptr,
                   d_.get());
    ops_.Copy(FromGroups(), false, d_.get(), normal_.get());
    const float* y = normal_.get();
    if (p_.scale) {
      ops_.Binary(BinaryKind::kMultiply, ByChannel(), y, call.parameters[0], call.output);
      y = call.output;
    }
    if (p_.offset) {
      ops_.Binary(BinaryKind::kAdd, ByChannel(), y, call.parameters[p_.scale ? 1 : 0], call.output);
    } else if (!p_.scale) {
      ops_.Affine(p_.n(), 1, 0, y, call.output);
    }
  }
  void Backward(const BackwardCall& call) override {
    const int64_t rows = p_.batch * p_.places;
    float* d_scale = p_.scale ? call.d_parameters[0] : nullptr;
    float* d_offset = p_.offset ? call.d_parameters[p_.scale ? 1 : 0] : nullptr;
    if (d_offset != nullptr) ops_.SumRows(rows, p_.channels, call.d_output, d_offset);
    if (d_scale != nullptr) {
      ops_.Binary(BinaryKind::kMultiply, {{p_.n()}, {1}, {1}, {1}}, call.d_output, normal_.get(),
                  normal_.get());
      ops_.SumRows(rows, p_.channels, normal_.get(), d_scale);
    }
    if (call.d_inputs[0] == nullptr) return;
    const float* d = call.d_output;
    if (p_.scale) {
      ops_.Binary(BinaryKind::kMultiply, ByChannel(), d, call.parameters[0], normal_.get());
      d = normal_.get();
    }
    ops_.Copy(to_groups_, false, d, d_.get());
    ops_.NormalizeBackward(shape_, false, x_.get(), kept_.get(), kept_.get() + shape_.rows, nullptr,
                           nullptr, d_.get(), normal_.get(), nullptr, nullptr);
    ops_.Copy(FromGroups(), false, normal_.get(), call.d_inputs[0]);
  }

 private:
  Walk FromGroups() const { return {to_groups_.dims, to_groups_.y, {}, to_groups_.a}; }
  Walk ByChannel() const {
    return {{p_.batch * p_.places, p_.channels}, {p_.channels, 1}, {0, 1}, {p_.channels, 1}};
  }

  Ops& ops_;
  const Plan p_;
  NormShape shape_;
  Walk to_groups_;
  DeviceArray x_, d_, normal_, kept_;  // in groups; scratch; the normalised x; mean and variance
};

class GroupNormLayer : public Layer {
 public:
  explicit GroupNormLayer(LayerConfig& config)
      : Layer(config),
        gamma_(config.InitializerOf("gamma_initializer", "ones")),
        beta_(config.InitializerOf("beta_initializer", "zeros")) {
    groups_ = config.AnyInteger("groups", 32);
    if (groups_ != -1 && groups_ < 1) config.Fail("groups", "must be positive, or -1");
    plan_.epsilon = static_cast<float>(config.Number("epsilon", 1e-3));
    plan_.scale = config.Flag("scale", true);
    plan_.offset = config.Flag("center", true);
    axis_ = config.AnyInteger("axis", -1);
  }
  MaskRule mask_rule() const override { return MaskRule::kPass; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const auto rank = static_cast<int64_t>(inputs[0].size());
    if (rank < 1 || (axis_ != -1 && axis_ != rank)) {
      return absl::InvalidArgumentError("key \"axis\": must be the last axis");
    }
    const int64_t channels = inputs[0].back();
    if (channels % GroupsOf(channels) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"groups\": ", channels, " channels do not make ", groups_, " groups"));
    }
    size_t index = 0;
    if (plan_.scale) RETURN_IF_ERROR(Declare(index++, "gamma", {channels}, gamma_));
    if (plan_.offset) RETURN_IF_ERROR(Declare(index++, "beta", {channels}, beta_));
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    GroupNormKernel::Plan plan = plan_;
    plan.batch = batch;
    plan.channels = inputs[0].back();
    plan.groups = GroupsOf(plan.channels);
    plan.places = Elements(inputs[0]) / plan.channels;
    auto kernel = std::make_unique<GroupNormKernel>(ops, plan);
    RETURN_IF_ERROR(kernel->Prepare());
    return kernel;
  }

 private:
  int64_t GroupsOf(int64_t channels) const { return groups_ == -1 ? channels : groups_; }

  const Initializer gamma_, beta_;
  int64_t groups_ = 1, axis_ = -1;
  GroupNormKernel::Plan plan_;  // the part independent of the input
};

}  // namespace

std::unique_ptr<Layer> MakeRmsNormalization(LayerConfig& config) {
  return std::make_unique<RmsLayer>(config, config.class_name() == "UnitNormalization");
}
std::unique_ptr<Layer> MakeGroupNormalization(LayerConfig& config) {
  return std::make_unique<GroupNormLayer>(config);
}

}  // namespace paracord
