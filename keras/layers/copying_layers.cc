// Layers that only move elements along walks: Permute, RepeatVector, ZeroPadding, Cropping,
// UpSampling, Concatenate and Stack.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/bilinear.h"
#include "keras/layers/copy_layer.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// Permute, and the operation Transpose: axis i of the output is axis order[i] of the input.
class PermuteLayer : public CopyLayer {
 public:
  PermuteLayer(LayerConfig& config, Shape order) : CopyLayer(config), order_(std::move(order)) {}

  absl::StatusOr<Plan> PlanFor(const Shape& input) const override {
    Shape sorted = order_;
    std::sort(sorted.begin(), sorted.end());
    bool good = sorted.size() == input.size();
    for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat("its order of axes does not fit an input of ", ShapeName(input)));
    }
    return Permuted(input, order_);
  }

 private:
  const Shape order_;  // axes counted from 0, without the batch
};

class RepeatVectorLayer : public CopyLayer {
 public:
  explicit RepeatVectorLayer(LayerConfig& config)
      : CopyLayer(config), n_(config.RequiredInteger("n", 1)) {}
  absl::StatusOr<Plan> PlanFor(const Shape& input) const override {
    if (input.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of 1 axis, not ", ShapeName(input)));
    }
    Plan plan;
    plan.output = plan.dims = {n_, input[0]};
    plan.a = {0, 1};
    plan.y = {input[0], 1};
    plan.repeated = true;
    return plan;
  }

 private:
  const int64_t n_;
};

// Adds zeros around the first axes (ZeroPadding), or removes elements there (Cropping).
class FrameLayer : public CopyLayer {
 public:
  FrameLayer(LayerConfig& config, size_t axes, bool crop)
      : CopyLayer(config), crop_(crop), frame_(config.Frame(crop ? "cropping" : "padding", axes)) {
    config.Choice("data_format", "channels_last", {"channels_last"});
  }
  absl::StatusOr<Plan> PlanFor(const Shape& input) const override {
    if (input.size() != frame_.size() + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of ", frame_.size() + 1, " axes, not ", ShapeName(input)));
    }
    Plan plan;
    plan.output = input;
    for (size_t i = 0; i < frame_.size(); ++i) {
      const int64_t around = frame_[i].first + frame_[i].second;
      plan.output[i] += crop_ ? -around : around;
      if (plan.output[i] < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("takes all of axis ", i + 1, " of its input ", ShapeName(input)));
      }
    }
    plan.a = RowMajor(input);
    plan.y = RowMajor(plan.output);
    plan.dims = crop_ ? plan.output : input;
    for (size_t i = 0; i < frame_.size(); ++i) {
      (crop_ ? plan.from : plan.to) += frame_[i].first * (crop_ ? plan.a : plan.y)[i];
    }
    plan.partial = crop_;
    if (!crop_) plan.fill = 0.f;
    return plan;
  }

 private:
  const bool crop_;
  const std::vector<std::pair<int64_t, int64_t>> frame_;
};

// Repeats each row and column.
class UpSamplingLayer : public CopyLayer {
 public:
  UpSamplingLayer(LayerConfig& config, size_t axes) : CopyLayer(config) {
    if (axes == 2) {
      const auto [height, width] = config.Pair("size", 2);
      size_ = {height, width};
    } else if (const nlohmann::json* size = config.Value("size"); axes == 3 && size != nullptr) {
      size_ = size->is_array() ? config.Integers("size") : Shape(3, config.AnyInteger("size", 2));
      bool good = size_.size() == 3;
      for (const int64_t n : size_) good = good && n >= 1 && n < 1 << 20;
      if (!good) config.Fail("size", "must be one or three positive whole numbers");
      if (!good) size_ = Shape(3, 1);
    } else {
      size_ = Shape(axes, config.Integer("size", 2, 1));
    }
    config.Choice("data_format", "channels_last", {"channels_last"});
  }
  absl::StatusOr<Plan> PlanFor(const Shape& input) const override {
    if (input.size() != size_.size() + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of ", size_.size() + 1, " axes, not ", ShapeName(input)));
    }
    Plan plan;
    plan.output = input;
    for (size_t i = 0; i < size_.size(); ++i) plan.output[i] *= size_[i];
    const std::vector<int64_t> in = RowMajor(input), out = RowMajor(plan.output);
    for (size_t i = 0; i < input.size(); ++i) {
      const int64_t times = i < size_.size() ? size_[i] : 1;
      plan.dims.insert(plan.dims.end(), {input[i], times});
      plan.a.insert(plan.a.end(), {in[i], 0});
      plan.y.insert(plan.y.end(), {out[i] * times, out[i]});
    }
    plan.repeated = true;
    return plan;
  }

 private:
  std::vector<int64_t> size_;
};

// Joins any number of inputs along an axis.
class ConcatenateLayer : public Layer {
 public:
  ConcatenateLayer(LayerConfig& config, bool stack)
      : Layer(config), axis_(config.AnyInteger("axis", stack ? 0 : -1)), stack_(stack) {}

  size_t most_inputs() const override { return SIZE_MAX; }
  absl::StatusOr<Shape> ConstantShape(size_t, const Shape& constant, size_t) const override {
    return ShapeOfOne(constant);
  }
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape>) const override {
    return Bfloat16::kIfComputed;
  }

  // Along axes other than the steps, an output step is visible if any input shows the step, and an
  // input without a mask shows all steps; in Keras 2 all inputs must show the step.
  MaskRule mask_rule() const override {
    if (stack_) return MaskRule::kStop;
    return axis_ == 1 || axis_ == -2 ? MaskRule::kCompute : MaskRule::kOr;
  }
  std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape> inputs) const override;

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, Axis(inputs[0]));
    Shape output = inputs[0];
    if (stack_) output.insert(output.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    output[axis] = 0;
    for (const Shape& input : inputs) {
      bool same = input.size() == inputs[0].size();
      for (size_t i = 0; same && i < input.size(); ++i) {
        same = (i == axis && !stack_) || input[i] == inputs[0][i];
      }
      if (!same) {
        return absl::InvalidArgumentError(absl::StrCat("its inputs' shapes ", ShapeName(inputs[0]),
                                                       " and ", ShapeName(input),
                                                       " do not go together"));
      }
      output[axis] += stack_ ? 1 : input[axis];
    }
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape output, OutputShape(inputs));
    ASSIGN_OR_RETURN(const size_t axis, Axis(inputs[0]));
    int64_t inner = 1;
    for (size_t i = axis + 1; i < output.size(); ++i) inner *= output[i];
    const int64_t outer = batch * Elements(output) / (output[axis] * inner);
    std::vector<Way> ways;
    int64_t to = 0;
    for (const Shape& input : inputs) {
      const int64_t run = (stack_ ? 1 : input[axis]) * inner;
      ways.push_back({{{outer, run}, {run, 1}, {}, {output[axis] * inner, 1}},
                      0,
                      to,
                      batch * Elements(input),
                      false,
                      false});
      to += run;
    }
    return std::make_unique<CopyKernel>(ops, std::move(ways), batch * Elements(output),
                                        std::nullopt);
  }

 private:
  absl::StatusOr<size_t> Axis(const Shape& input) const {
    const auto rank = static_cast<int64_t>(input.size()) + 1 + (stack_ ? 1 : 0);
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 1 || axis >= rank) {
      return absl::InvalidArgumentError(absl::StrCat("key \"axis\": ", axis_, " is no axis of ",
                                                     ShapeName(input),
                                                     " (the batch does not count)"));
    }
    return static_cast<size_t>(axis - 1);
  }

  const int64_t axis_;
  const bool stack_;
};

// Joins the masks of steps in sequence, with ones for an input without a mask.
class JoinMasksLayer : public Layer {
 public:
  explicit JoinMasksLayer(const Layer& like) : Layer(like) {}
  bool differentiable() const override { return false; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    int64_t steps = 0;
    const size_t count = inputs.size() / 2;
    for (size_t i = 0; i < count; ++i) {
      const Shape &input = inputs[i], &mask = inputs[count + i];
      if (!mask.empty() && mask != Shape{input[0]}) return WrongMask(mask, input);
      steps += input[0];
    }
    return Shape{steps};
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    std::vector<int64_t> lengths;
    for (const Shape& input : inputs.first(inputs.size() / 2)) lengths.push_back(input[0]);
    return std::make_unique<JoinKernel>(ops, batch, std::move(lengths));
  }

 private:
  class JoinKernel : public Kernel {
   public:
    JoinKernel(Ops& ops, int64_t batch, std::vector<int64_t> lengths)
        : ops_(ops), batch_(batch), lengths_(std::move(lengths)) {
      for (const int64_t length : lengths_) total_ += length;
    }
    void Forward(const ForwardCall& call) override {
      ops_.Fill(batch_ * total_, 1, call.output);
      int64_t at = 0;
      for (size_t i = 0; i < lengths_.size(); ++i) {
        const float* mask = call.inputs[lengths_.size() + i];
        const int64_t n = lengths_[i];
        if (mask != nullptr) {
          ops_.Copy({{batch_, n}, {n, 1}, {}, {total_, 1}}, false, mask, call.output + at);
        }
        at += n;
      }
    }
    void Backward(const BackwardCall&) override {}

   private:
    Ops& ops_;
    const int64_t batch_;
    const std::vector<int64_t> lengths_;
    int64_t total_ = 0;
  };
};

std::unique_ptr<Layer> ConcatenateLayer::MakeMaskLayer(std::span<const Shape> inputs) const {
  const size_t n = inputs.size() / 2;
  size_t masked = 0;
  for (const Shape& mask : inputs.subspan(n)) masked += mask.empty() ? 0 : 1;
  const absl::StatusOr<size_t> axis = Axis(inputs[0]);
  if (masked == 0 || !axis.ok() || *axis != 0 || inputs[0].size() < 2) return nullptr;
  return std::make_unique<JoinMasksLayer>(*this);
}

}  // namespace

CopyLayer::Plan CopyLayer::Permuted(const Shape& input, const Shape& order) {
  Plan plan;
  const std::vector<int64_t> steps = RowMajor(input);
  for (const int64_t axis : order) {
    plan.output.push_back(input[static_cast<size_t>(axis)]);
    plan.a.push_back(steps[static_cast<size_t>(axis)]);
  }
  plan.dims = plan.output;
  plan.y = RowMajor(plan.output);
  return plan;
}

std::unique_ptr<Layer> MakePermute(LayerConfig& config) {
  const bool operation = config.class_name() == "Transpose";
  const char* key = !operation ? "dims" : config.keras2() ? "perm" : "axes";
  if (operation && !config.Has(key)) {
    config.Fail(key,
                "is missing: the order of all axes is turned round, but the batch must stay "
                "in front");
  }
  Shape order = config.Integers(key);
  if (operation) {
    const auto rank = static_cast<int64_t>(order.size());
    for (int64_t& axis : order) axis += axis < 0 ? rank : 0;
    if (order.empty() || order[0] != 0) config.Fail(key, "must leave the batch in front");
    if (!order.empty()) order.erase(order.begin());
  }
  for (int64_t& axis : order) --axis;
  return std::make_unique<PermuteLayer>(config, std::move(order));
}
std::unique_ptr<Layer> MakeRepeatVector(LayerConfig& config) {
  return std::make_unique<RepeatVectorLayer>(config);
}
std::unique_ptr<Layer> MakeFrame(LayerConfig& config) {
  const std::string& name = config.class_name();
  return std::make_unique<FrameLayer>(config, AxesOfName(name), name.starts_with("Cropping"));
}
std::unique_ptr<Layer> MakeUpSampling(LayerConfig& config) {
  const size_t axes = AxesOfName(config.class_name());
  if (axes == 2 &&
      config.Choice("interpolation", "nearest", {"nearest", "bilinear"}) == "bilinear") {
    return MakeBilinear(config);
  }
  return std::make_unique<UpSamplingLayer>(config, axes);
}
std::unique_ptr<Layer> MakeConcatenate(LayerConfig& config) {
  return std::make_unique<ConcatenateLayer>(config, config.class_name() == "Stack");
}

}  // namespace paracord
