// Random brightness and contrast in training, with one number for each example.
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "keras/layers/image.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// Computes clip(x + number), or clip((x - mean) number + mean) with the mean of the channel.
struct ColourPlan {
  bool contrast = false;
  float low = 0, high = 0;  // range of the number
  Activation clip;
};

class ColourKernel : public Kernel {
 public:
  struct Arrays {
    DeviceArray numbers;  // (batch) as drawn, then (batch) 1 - number
    DeviceArray sums;     // (batch, width, channels), then (batch, channels)
  };
  ColourKernel(Ops& ops, const ColourPlan& plan, int64_t batch, const Shape& in, Arrays arrays)
      : ops_(ops), plan_(plan), batch_(batch), in_(in), arrays_(std::move(arrays)) {
    const int64_t each = Elements(in);
    by_example_ = {{batch, each}, {each, 1}, {1, 0}, {each, 1}};
    by_channel_ = {
        {batch, in[0] * in[1], in[2]}, {each, in[2], 1}, {in[2], 0, 1}, {each, in[2], 1}};
  }

  void Forward(const ForwardCall& call) override {
    drew_ = call.training;
    if (!drew_) return ops_.Affine(size(), 1, 0, call.inputs[0], call.output);
    float* const numbers = arrays_.numbers.get();
    ops_.Uniform(call.key, plan_.low, plan_.high, call.first_example, batch_, numbers);
    if (plan_.contrast) ops_.Affine(batch_, -1, 1, numbers, numbers + batch_);
    BeforeClip(call.inputs[0], call.output);
    ops_.Activate(plan_.clip, 1, size(), call.output, call.output);
  }
  void Backward(const BackwardCall& call) override {
    float* const d = call.d_inputs[0];
    if (d == nullptr) return;
    if (!drew_) return ops_.Affine(size(), 1, 0, call.d_output, d);
    BeforeClip(call.inputs[0], d);
    ops_.ActivateBackward(plan_.clip, 1, size(), d, call.output, call.d_output, call.d_output);
    if (plan_.contrast) return Spread(call.d_output, d);  // the map is its own adjoint
    ops_.Affine(size(), 1, 0, call.d_output, d);
  }

 private:
  int64_t size() const { return batch_ * Elements(in_); }
  void BeforeClip(const float* x, float* y) {
    if (plan_.contrast) return Spread(x, y);
    ops_.Binary(BinaryKind::kAdd, by_example_, x, arrays_.numbers.get(), y);
  }
  // Computes y = number x + (1 - number) mean(x).
  void Spread(const float* x, float* y) {
    float* const rows = arrays_.sums.get();
    const int64_t width = in_[1], channels = in_[2], line = width * channels;
    float* const mean = rows + batch_ * line;
    ops_.Fill(batch_ * (line + channels), 0, rows);
    ops_.Copy({{batch_, in_[0], line}, {Elements(in_), line, 1}, {}, {line, 0, 1}}, true, x, rows);
    ops_.Affine(batch_ * line, 1 / static_cast<float>(in_[0]), 0, rows, rows);
    ops_.Copy({{batch_, width, channels}, {line, channels, 1}, {}, {channels, 0, 1}}, true, rows,
              mean);
    ops_.Affine(batch_ * channels, 1 / static_cast<float>(width), 0, mean, mean);
    const Walk of_means{{batch_, channels}, {channels, 1}, {1, 0}, {channels, 1}};
    const float* const numbers = arrays_.numbers.get();
    ops_.Binary(BinaryKind::kMultiply, of_means, mean, numbers + batch_, mean);
    ops_.Binary(BinaryKind::kMultiply, by_example_, x, numbers, y);
    ops_.Binary(BinaryKind::kAdd, by_channel_, y, mean, y);
  }

  Ops& ops_;
  const ColourPlan plan_;
  const int64_t batch_;
  const Shape in_;
  const Arrays arrays_;
  Walk by_example_, by_channel_;
  bool drew_ = false;  // the last forward pass drew numbers, reused by backward
};

class ColourLayer : public Layer {
 public:
  explicit ColourLayer(LayerConfig& config) : Layer(config) {
    // MakeMoved handles channels_first
    config.Choice("data_format", "channels_last", {"channels_last"});
    config.Ignore("seed");  // the batch's key replaces the seed
    config.Ignore("rng_type");
    plan_.contrast = class_name() == "RandomContrast";
    std::pair<double, double> values{0, 255};
    if (config.Has("value_range")) values = ReadPair(config, "value_range");
    if (!plan_.contrast && values.first > values.second) std::swap(values.first, values.second);
    if (values.first > values.second) config.Fail("value_range", "must have the lower one first");
    plan_.clip = {ActivationKind::kClip, static_cast<float>(values.first),
                  static_cast<float>(values.second)};
    auto [low, high] = ReadRange(config, "factor", -HUGE_VAL);
    if (plan_.contrast) {
      // For a single number, Keras 3's range begins at 0, while Keras 2's extends as far to either
      // side.
      const bool one = config.Has("factor") && !config.values()["factor"].is_array();
      low = 1 - (one ? (config.keras2() ? high : 0) : low);
      high = 1 + high;
    } else {
      low *= values.second - values.first;
      high *= values.second - values.first;
    }
    plan_.low = static_cast<float>(low);
    plan_.high = static_cast<float>(high);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(CheckImage(inputs[0]));
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape& in = inputs[0];
    ColourKernel::Arrays arrays;
    ASSIGN_OR_RETURN(arrays.numbers, ops.Allocate(2 * batch));
    if (plan_.contrast) {
      ASSIGN_OR_RETURN(arrays.sums, ops.Allocate(batch * (in[1] + 1) * in[2]));
    }
    return std::make_unique<ColourKernel>(ops, plan_, batch, in, std::move(arrays));
  }

 private:
  ColourPlan plan_;
};

}  // namespace

std::unique_ptr<Layer> MakeImageColour(LayerConfig& config) {
  return std::make_unique<ColourLayer>(config);
}

}  // namespace paracord
