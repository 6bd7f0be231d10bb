// Dropout and noise. What is drawn is a function of the batch's identity and the element alone.
#include "common/status_macros.h"
#include "worker/layers/layers.h"
#include "worker/layers/walks.h"

namespace paracord {
namespace {

class RandomLayer : public Layer {
 public:
  enum class Kind {
    kDropout,
    kSpatial,     // whole channels
    kNoise,       // x + noise
    kMultiplied,  // x (1 + noise)
  };
  RandomLayer(LayerConfig& config, Kind kind, double amount)
      : Layer(config), kind_(kind), amount_(amount) {}

  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool is_view() const override { return amount_ == 0; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (kind_ == Kind::kSpatial && inputs[0].size() < 2) {
      return absl::InvalidArgumentError("needs an input of steps or an image, and channels");
    }
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override;

 private:
  const Kind kind_;
  const double amount_;  // the rate, or the standard deviation
};

class RandomKernel : public Kernel {
 public:
  using Kind = RandomLayer::Kind;
  struct Plan {
    Kind kind = Kind::kDropout;
    float amount = 0;
    int64_t batch = 0, each = 0, drawn = 0;  // elements, and random numbers, of an example
    Walk multiply;
  };
  RandomKernel(Ops& ops, Plan plan, DeviceArray drawn)
      : ops_(ops), plan_(std::move(plan)), drawn_(std::move(drawn)) {}

  void Forward(const ForwardCall& call) override {
    const int64_t n = plan_.batch * plan_.each;
    if (!call.training) return ops_.Affine(n, 1, 0, call.inputs[0], call.output);
    const int64_t first = call.first_example * plan_.drawn;
    switch (plan_.kind) {
      case Kind::kDropout:
        return ops_.Dropout(call.key, plan_.amount, first, n, call.inputs[0], call.output);
      case Kind::kNoise:
        return ops_.AddNoise(call.key, plan_.amount, first, n, call.inputs[0], call.output);
      case Kind::kSpatial:
      case Kind::kMultiplied:
        Draw(call.key, first);
        return ops_.Binary(BinaryKind::kMultiply, plan_.multiply, call.inputs[0], drawn_.get(),
                           call.output);
    }
  }
  void Backward(const BackwardCall& call) override {
    float* d = call.d_inputs[0];
    if (d == nullptr) return;
    const int64_t n = plan_.batch * plan_.each;
    switch (plan_.kind) {
      case Kind::kDropout:
        return ops_.Dropout(call.key, plan_.amount, call.first_example * plan_.drawn, n,
                            call.d_output, d);
      case Kind::kNoise:
        return ops_.Affine(n, 1, 0, call.d_output, d);
      case Kind::kSpatial:
      case Kind::kMultiplied:
        return ops_.Binary(BinaryKind::kMultiply, plan_.multiply, call.d_output, drawn_.get(), d);
    }
  }

 private:
  // The factors, kept for the way back.
  void Draw(uint64_t key, int64_t first) {
    const int64_t n = plan_.batch * plan_.drawn;
    ops_.Fill(n, 1, drawn_.get());
    if (plan_.kind == Kind::kSpatial) {
      ops_.Dropout(key, plan_.amount, first, n, drawn_.get(), drawn_.get());
    } else {
      ops_.AddNoise(key, plan_.amount, first, n, drawn_.get(), drawn_.get());
    }
  }

  Ops& ops_;
  const Plan plan_;
  const DeviceArray drawn_;
};

absl::StatusOr<std::unique_ptr<Kernel>> RandomLayer::MakeKernel(Ops& ops, int64_t batch,
                                                                std::span<const Shape> inputs) {
  const int64_t each = Elements(inputs[0]);
  RandomKernel::Plan plan{kind_, static_cast<float>(amount_), batch, each, each, {}};
  DeviceArray drawn;
  if (kind_ == Kind::kSpatial) {
    const int64_t channels = inputs[0].back();
    plan.drawn = channels;
    plan.multiply = {{batch, each / channels, channels},
                     {each, channels, 1},
                     {channels, 0, 1},
                     {each, channels, 1}};
  } else {
    plan.multiply = {{batch * each}, {1}, {1}, {1}};
  }
  if (kind_ == Kind::kSpatial || kind_ == Kind::kMultiplied) {
    ASSIGN_OR_RETURN(drawn, ops.Allocate(batch * plan.drawn));
  }
  return std::make_unique<RandomKernel>(ops, std::move(plan), std::move(drawn));
}

}  // namespace

std::unique_ptr<Layer> MakeDropout(LayerConfig& config) {
  using Kind = RandomLayer::Kind;
  config.Ignore("seed");  // the batch's key decides
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
  if (name != "Dropout") config.Choice("data_format", "channels_last", {"channels_last"});
  if (rate == 0) return MakeIdentity(config);
  if (name == "Dropout") return std::make_unique<RandomLayer>(config, Kind::kDropout, rate);
  return std::make_unique<RandomLayer>(config, Kind::kSpatial, rate);
}

}  // namespace paracord
