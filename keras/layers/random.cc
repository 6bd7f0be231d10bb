// Dropout and noise. Random numbers depend on the batch's identity and the element's index alone.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// The axes, batch first, with separate random numbers; along other axes a number is shared. Empty
// means all axes.
using DrawnAxes = std::vector<bool>;

class RandomLayer : public Layer {
 public:
  enum class Kind {
    kDropout,
    kDropoutAlong,  // drops whole slices along some axes, such as channels
    kAlpha,         // AlphaDropout: keeps mean and variance of a selu's output
    kNoise,         // x + noise
    kMultiplied,    // x (1 + noise)
  };
  RandomLayer(LayerConfig& config, Kind kind, double amount, DrawnAxes axes = {})
      : Layer(config), kind_(kind), amount_(amount), axes_(std::move(axes)) {
    spatial_ = class_name().starts_with("Spatial");
  }

  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool is_view() const override { return amount_ == 0; }
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape>) const override {
    const bool takes = kind_ == Kind::kDropout || kind_ == Kind::kDropoutAlong;
    return takes ? Bfloat16::kIfComputed : Bfloat16::kNever;
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (spatial_ && inputs[0].size() < 2) {
      return absl::InvalidArgumentError("needs an input of steps or an image, and channels");
    }
    if (!axes_.empty() && axes_.size() != inputs[0].size() + 1) {
      return absl::InvalidArgumentError(absl::StrCat("key \"noise_shape\": ", axes_.size(),
                                                     " axes do not fit an input of ",
                                                     ShapeName(inputs[0]), " and the batch"));
    }
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override;

 private:
  const Kind kind_;
  const double amount_;  // the rate, or the standard deviation
  const DrawnAxes axes_;
  bool spatial_ = false;
};

// The value of a dropped element: selu's lower limit.
constexpr double kAlphaDropped =
    -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946;

class RandomKernel : public Kernel {
 public:
  using Kind = RandomLayer::Kind;
  struct Plan {
    Kind kind = Kind::kDropout;
    float amount = 0;
    int64_t batch = 0, each = 0, drawn = 0;  // per example: elements, random numbers
    bool together = false;                   // all examples share the numbers
    Walk multiply;
  };
  RandomKernel(Ops& ops, Plan plan, DeviceArray drawn)
      : ops_(ops), plan_(std::move(plan)), drawn_(std::move(drawn)) {
    const double rate = plan_.amount, dropped = kAlphaDropped;
    alpha_scale_ = 1 / std::sqrt((1 - rate) * (1 + rate * dropped * dropped));
  }

  void Forward(const ForwardCall& call) override {
    const int64_t n = plan_.batch * plan_.each;
    drew_ = call.training;
    if (!drew_) return ops_.Convert(n, call.inputs[0], call.output);
    const int64_t first = plan_.together ? 0 : call.first_example * plan_.drawn;
    switch (plan_.kind) {
      case Kind::kDropout:
        return ops_.Dropout(call.key, plan_.amount, first, n, call.inputs[0], call.output);
      case Kind::kNoise:
        return ops_.AddNoise(call.key, plan_.amount, first, n, call.inputs[0], call.output);
      case Kind::kDropoutAlong:
      case Kind::kMultiplied:
        Draw(call.key, first);
        return ops_.Binary(BinaryKind::kMultiply, plan_.multiply, call.inputs[0], drawn_.get(),
                           call.output);
      // Scale (x or the dropped value) + offset, computed on x - the dropped value.
      case Kind::kAlpha: {
        Draw(call.key, first);
        ops_.Affine(n, 1, -static_cast<float>(kAlphaDropped), call.inputs[0], call.output);
        ops_.Binary(BinaryKind::kMultiply, plan_.multiply, call.output, drawn_.get(), call.output);
        const double offset = alpha_scale_ * kAlphaDropped * (1 - plan_.amount);
        return ops_.Affine(n, OfKept(), static_cast<float>(offset), call.output, call.output);
      }
    }
  }
  void Backward(const BackwardCall& call) override {
    const Tensor d = call.d_inputs[0];
    if (d == nullptr) return;
    const int64_t n = plan_.batch * plan_.each;
    if (!drew_) return ops_.Convert(n, call.d_output, d);
    switch (plan_.kind) {
      case Kind::kDropout:
        return ops_.Dropout(call.key, plan_.amount, call.first_example * plan_.drawn, n,
                            call.d_output, d);
      case Kind::kNoise:
        return ops_.Affine(n, 1, 0, call.d_output, d);
      case Kind::kAlpha:
      case Kind::kDropoutAlong:
      case Kind::kMultiplied:
        ops_.Binary(BinaryKind::kMultiply, plan_.multiply, call.d_output, drawn_.get(), d);
        if (plan_.kind == Kind::kAlpha) ops_.Affine(n, OfKept(), 0, d, d);
    }
  }

 private:
  // Draws the factors and keeps them for the gradient.
  void Draw(uint64_t key, int64_t first) {
    const int64_t n = (plan_.together ? 1 : plan_.batch) * plan_.drawn;
    ops_.Fill(n, 1, drawn_.get());
    if (plan_.kind == Kind::kMultiplied) {
      ops_.AddNoise(key, plan_.amount, first, n, drawn_.get(), drawn_.get());
    } else {
      ops_.Dropout(key, plan_.amount, first, n, drawn_.get(), drawn_.get());
    }
  }
  // The slope of an element kept by AlphaDropout, whose factor is 1 / (1 - rate).
  float OfKept() const { return static_cast<float>(alpha_scale_ * (1 - plan_.amount)); }

  Ops& ops_;
  const Plan plan_;
  const DeviceArray drawn_;
  double alpha_scale_ = 1;
  bool drew_ = false;  // random numbers were drawn in the last forward pass
};

absl::StatusOr<std::unique_ptr<Kernel>> RandomLayer::MakeKernel(Ops& ops, int64_t batch,
                                                                std::span<const Shape> inputs) {
  const Shape& shape = inputs[0];
  DrawnAxes axes = axes_.empty() ? DrawnAxes(shape.size() + 1, true) : axes_;
  if (spatial_) std::fill(axes.begin() + 1, axes.end() - 1, false);
  RandomKernel::Plan plan{kind_, static_cast<float>(amount_), batch, Elements(shape), 1, false, {}};
  Shape drawn_shape = shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!axes[i + 1]) drawn_shape[i] = 1;
  }
  plan.drawn = Elements(drawn_shape);
  plan.together = !axes[0];
  plan.multiply.dims = WithBatch(batch, shape);
  plan.multiply.a = plan.multiply.y = RowMajor(plan.multiply.dims);
  plan.multiply.b = BroadcastSteps(batch, drawn_shape, shape);
  if (plan.together) plan.multiply.b[0] = 0;
  plan.multiply = Shorten(std::move(plan.multiply));
  DeviceArray drawn;
  if (kind_ != Kind::kDropout && kind_ != Kind::kNoise) {
    ASSIGN_OR_RETURN(drawn, ops.Allocate(batch * plan.drawn));
  }
  return std::make_unique<RandomKernel>(ops, std::move(plan), std::move(drawn));
}

// Keras gives each axis a size or null, and 1 for axes whose elements are dropped together.
DrawnAxes ReadNoiseShape(LayerConfig& config) {
  DrawnAxes axes;
  const nlohmann::json* shape = config.Value("noise_shape");
  if (shape == nullptr || shape->is_null()) return axes;
  if (!shape->is_array()) config.Fail("noise_shape", "must be a list of lengths or nulls");
  for (const auto& length : *shape) axes.push_back(length != 1);
  return axes;
}

}  // namespace

std::unique_ptr<Layer> MakeDropout(LayerConfig& config) {
  using Kind = RandomLayer::Kind;
  config.Ignore("seed");  // the batch's key replaces the seed
  const std::string& name = config.class_name();
  if (name == "GaussianNoise") {
    const double stddev = config.Number("stddev", 0);
    if (stddev < 0) config.Fail("stddev", "must not be negative");
    return std::make_unique<RandomLayer>(config, Kind::kNoise, stddev);
  }
  const double rate = config.Number("rate", 0);
  if (!(rate >= 0 && rate < 1)) config.Fail("rate", "must be at least 0 and below 1");
  if (name == "GaussianDropout") {
    return std::make_unique<RandomLayer>(config, Kind::kMultiplied, std::sqrt(rate / (1 - rate)));
  }
  const bool spatial = name.starts_with("Spatial");
  DrawnAxes axes;
  if (spatial) {
    config.Choice("data_format", "channels_last", {"channels_last"});
  } else {
    axes = ReadNoiseShape(config);
  }
  if (rate == 0) return MakeIdentity(config);
  const Kind kind = name == "AlphaDropout"     ? Kind::kAlpha
                    : spatial || !axes.empty() ? Kind::kDropoutAlong
                                               : Kind::kDropout;
  return std::make_unique<RandomLayer>(config, kind, rate, std::move(axes));
}

}  // namespace paracord
