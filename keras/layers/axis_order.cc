// Layers along axes other than the last: channels_first, and normalisation, softmax and attention
// along any axis. The inner layer works along the last axes; inputs are copied to the inner layer's
// order, and the output back.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

using nlohmann::json;
// axis i of the inner layer's input is axis order[i] of ours
using AxisOrder = std::vector<size_t>;

bool InOrder(const AxisOrder& order) { return std::is_sorted(order.begin(), order.end()); }

Shape Moved(const Shape& shape, const AxisOrder& order) {
  Shape moved;
  for (const size_t axis : order) moved.push_back(shape[axis]);
  return moved;
}

// The inverse permutation of `moved`; unchanged if the numbers of axes differ.
Shape MovedBack(const Shape& moved, const AxisOrder& order) {
  Shape shape = moved;
  for (size_t i = 0; i < order.size() && moved.size() == order.size(); ++i) {
    shape[order[i]] = moved[i];
  }
  return shape;
}

// Walks from a tensor of `shape` into the permuted order.
Walk WalkTo(int64_t batch, const Shape& shape, const AxisOrder& order) {
  const std::vector<int64_t> steps = RowMajor(WithBatch(batch, shape));
  Walk walk;
  walk.dims = WithBatch(batch, Moved(shape, order));
  walk.y = RowMajor(walk.dims);
  walk.a = {steps[0]};
  for (const size_t axis : order) walk.a.push_back(steps[axis + 1]);
  return Shorten(std::move(walk));
}

Walk Back(const Walk& walk) { return {walk.dims, walk.y, {}, walk.a}; }

class MovedKernel : public Kernel {
 public:
  // A tensor and its permuted copy.
  struct Reordered {
    Walk walk;
    DeviceArray moved, d_moved;
  };
  // `inner` is null if only the order changes. Unpermuted inputs have no memory.
  MovedKernel(Ops& ops, std::unique_ptr<Kernel> inner, std::vector<Reordered> inputs,
              Reordered output)
      : ops_(ops),
        inner_(std::move(inner)),
        inputs_(std::move(inputs)),
        output_(std::move(output)) {}

  void Forward(const ForwardCall& call) override {
    if (inner_ == nullptr) return ops_.Copy(inputs_[0].walk, false, call.inputs[0], call.output);
    x_.assign(call.inputs.begin(), call.inputs.end());
    for (size_t i = 0; i < x_.size(); ++i) {
      if (inputs_[i].moved == nullptr || call.inputs[i] == nullptr) continue;
      ops_.Copy(inputs_[i].walk, false, call.inputs[i], inputs_[i].moved.get());
      x_[i] = inputs_[i].moved.get();
    }
    ForwardCall inner = call;
    inner.inputs = x_;
    inner.output = output_.moved.get();
    inner_->Forward(inner);
    ops_.Copy(Back(output_.walk), false, output_.moved.get(), call.output);
  }

  void Backward(const BackwardCall& call) override {
    float* const dx = call.d_inputs[0];
    if (inner_ == nullptr) {
      if (dx != nullptr) ops_.Copy(Back(inputs_[0].walk), false, call.d_output, dx);
      return;
    }
    ops_.Copy(output_.walk, false, call.d_output, output_.d_moved.get());
    d_.assign(call.d_inputs.begin(), call.d_inputs.end());
    for (size_t i = 0; i < d_.size(); ++i) {
      if (d_[i] != nullptr && inputs_[i].moved != nullptr) d_[i] = inputs_[i].d_moved.get();
    }
    BackwardCall inner = call;
    inner.inputs = x_;
    inner.d_inputs = d_;
    inner.output = output_.moved.get();
    inner.d_output = output_.d_moved.get();
    inner_->Backward(inner);
    for (size_t i = 0; i < d_.size(); ++i) {
      if (d_[i] == nullptr || inputs_[i].moved == nullptr) continue;
      ops_.Copy(Back(inputs_[i].walk), false, d_[i], call.d_inputs[i]);
    }
  }

 private:
  Ops& ops_;
  const std::unique_ptr<Kernel> inner_;
  const std::vector<Reordered> inputs_;
  const Reordered output_;
  std::vector<ConstTensor> x_;
  std::vector<Tensor> d_;
};

class MovedLayer : public Layer {
 public:
  // `axes` (from the config's `key`) are to come last; if there are none, the first axis is.
  MovedLayer(const LayerConfig& config, std::unique_ptr<Layer> inner, const char* key,
             std::vector<int64_t> axes)
      : Layer(config), inner_(std::move(inner)), key_(key), axes_(std::move(axes)) {}

  MaskRule mask_rule() const override { return inner_->mask_rule(); }
  bool takes_masks() const override { return inner_->takes_masks(); }
  bool one_mode() const override { return inner_->one_mode(); }
  bool removes_masks() const override { return inner_->removes_masks(); }
  size_t most_inputs() const override { return inner_->most_inputs(); }
  std::vector<std::string_view> mask_arguments() const override { return inner_->mask_arguments(); }
  bool differentiable() const override { return inner_->differentiable(); }
  std::vector<Shape> parts() const override { return inner_->parts(); }
  std::optional<Activation> activation_after() const override { return inner_->activation_after(); }
  std::optional<Activation> activation() const override {
    return in_order_ ? inner_->activation() : std::nullopt;
  }

  bool ends_in(const Activation& activation) const override {
    return in_order_ && inner_->ends_in(activation);
  }
  Bfloat16 TakesBfloat16(Ops& ops, std::span<const Shape> inputs) const override {
    return in_order_ ? inner_->TakesBfloat16(ops, inputs) : Bfloat16::kNever;
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const AxisOrder order, OrderFor(inputs[0]));
    in_order_ = in_order_ && InOrder(order);
    ASSIGN_OR_RETURN(const std::vector<Shape> moved, InputsFor(inputs, order));
    ASSIGN_OR_RETURN(const Shape output, inner_->OutputShape(moved));
    if (!InOrder(order) && class_name() == "MultiHeadAttention" && output.size() != order.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"", key_, "\": axes that are not the last ones go with one output, ",
                       "and with an output_shape of one size"));
    }
    Adopt({inner_.get()});
    outputs_[moved[0]] = output;
    return MovedBack(output, order);
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    const auto order = OrderFor(inputs[0]);
    const auto moved = order.ok() ? InputsFor(inputs, *order) : order.status();
    return moved.ok() ? inner_->Arithmetic(*moved, outputs_.at((*moved)[0])) : 0;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return MakeKernelOf({}, ops, batch, inputs);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(const KernelForm& form, Ops& ops,
                                                       int64_t batch,
                                                       std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const AxisOrder order, OrderFor(inputs[0]));
    ASSIGN_OR_RETURN(const std::vector<Shape> moved, InputsFor(inputs, order));
    const bool view = inner_->is_view();
    if (InOrder(order) && !view) return inner_->MakeKernelOf(form, ops, batch, moved);
    std::vector<MovedKernel::Reordered> tensors(inputs.size());
    // Masks and statistics, behind the data, have no gradient.
    const size_t data = inner_->takes_masks() ? inputs.size() / 2 : 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (moved[i].size() != order.size()) continue;
      const Shape shape = WholeMask(inputs[i], order);
      tensors[i].walk = WalkTo(batch, shape, order);
      if (view) continue;
      const int64_t n = batch * Elements(shape);
      ASSIGN_OR_RETURN(tensors[i].moved, ops.Allocate(n));
      if (i >= data) continue;
      ASSIGN_OR_RETURN(tensors[i].d_moved, ops.Allocate(n));
    }
    MovedKernel::Reordered output;
    std::unique_ptr<Kernel> kernel;
    if (!view) {
      const Shape& to = outputs_.at(moved[0]);
      const int64_t n = batch * Elements(to);
      output.walk = to.size() == order.size() ? WalkTo(batch, MovedBack(to, order), order)
                                              : Walk{{n}, {1}, {}, {1}};
      ASSIGN_OR_RETURN(output.moved, ops.Allocate(n));
      ASSIGN_OR_RETURN(output.d_moved, ops.Allocate(n));
      ASSIGN_OR_RETURN(kernel, inner_->MakeKernel(ops, batch, moved));
    }
    return std::make_unique<MovedKernel>(ops, std::move(kernel), std::move(tensors),
                                         std::move(output));
  }

 private:
  absl::StatusOr<AxisOrder> OrderFor(const Shape& input) const {
    const size_t rank = input.size();
    std::vector<bool> last(rank, false);
    // The variables of these layers have their axes in the given order.
    const bool ordered = class_name() == "LayerNormalization" || class_name() == "Normalization";
    int64_t before = 0;
    if (axes_.empty() && rank > 0) last[0] = true;
    AxisOrder order;
    for (const int64_t given : axes_) {
      const int64_t axis = given < 0 ? given + static_cast<int64_t>(rank) + 1 : given;
      const bool exists = axis > 0 && axis <= static_cast<int64_t>(rank);
      if (!exists || (ordered && axis < before) || last[static_cast<size_t>(axis - 1)]) {
        return absl::InvalidArgumentError(
            absl::StrCat("key \"", key_, "\": ", given, " is no axis of ", ShapeName(input),
                         " (the batch does not count), or not in order"));
      }
      before = axis;
      last[static_cast<size_t>(axis - 1)] = true;
    }
    for (size_t i = 0; i < rank; ++i) {
      if (!last[i]) order.push_back(i);
    }
    for (size_t i = 0; i < rank; ++i) {
      if (last[i]) order.push_back(i);
    }
    return order;
  }

  // Adds the last axis, of size 1, to BatchNormalization's mask, which covers all others.
  Shape WholeMask(Shape mask, const AxisOrder& order) const {
    const bool lacks = !mask.empty() && mask.size() + 1 == order.size();
    if (lacks && class_name() == "BatchNormalization" && !InOrder(order)) mask.push_back(1);
    return mask;
  }

  // The shapes of the inner layer's inputs; a mask of steps is not permuted.
  absl::StatusOr<std::vector<Shape>> InputsFor(std::span<const Shape> inputs,
                                               const AxisOrder& order) const {
    std::vector<Shape> moved;
    for (const Shape& input : inputs) {
      const Shape shape = WholeMask(input, order);
      const bool whole = shape.size() == order.size();
      if (!whole && !input.empty() && !axes_.empty() && !InOrder(order)) {
        return WrongMask(input, inputs[0]);
      }
      moved.push_back(whole ? Moved(shape, order) : input);
    }
    return moved;
  }

  const std::unique_ptr<Layer> inner_;
  const char* const key_;
  const std::vector<int64_t> axes_;
  bool in_order_ = true;            // true of all calls so far
  std::map<Shape, Shape> outputs_;  // the inner layer's, by input shape
};

// Makes the layer with the keys of a layer along the last axes.
absl::StatusOr<std::unique_ptr<Layer>> MakeAlong(const LayerConfig& config, const char* key,
                                                 json last, std::vector<int64_t> axes) {
  json values = config.values();
  values[key] = std::move(last);
  // Keras 2's fused kernel, imitated by NormLayer, covers only these axes of an image.
  const bool by_row = axes == std::vector<int64_t>{2} || axes == std::vector<int64_t>{-2};
  if (by_row && config.class_name() == "BatchNormalization") values["fused"] = false;
  LayerConfig moved(config.class_name(), config.name(), values, config.keras2());
  moved.SetCallOf(config);
  ASSIGN_OR_RETURN(std::unique_ptr<Layer> inner, MakeLayer(moved, /*operation=*/false));
  return std::make_unique<MovedLayer>(config, std::move(inner), key, std::move(axes));
}

// Without RMSNormalization: a scale along other axes has no meaning, even in Keras.
constexpr std::string_view kAlongAxes[] = {
    "BatchNormalization", "GroupNormalization", "LayerNormalization", "Normalization", "Softmax",
    "UnitNormalization",
};

// The features stay the last axis, after the axes of attention.
absl::StatusOr<std::unique_ptr<Layer>> MakeAttentionAlong(const LayerConfig& config) {
  const auto given = config.values().find("attention_axes");
  if (given == config.values().end()) return nullptr;
  std::vector<int64_t> axes = AxesOf(*given);
  // Keras 2 also counts the axis of the heads, from the end.
  const int64_t heads = config.keras2() ? 1 : 0;
  for (int64_t& axis : axes) axis += axis < 0 ? heads : 0;
  std::sort(axes.begin(), axes.end());
  std::vector<int64_t> wanted;
  json last = json::array();
  for (size_t i = axes.size(); i > 0; --i) {
    wanted.push_back(-1 - static_cast<int64_t>(i));
    last.push_back(wanted.back() - heads);
  }
  // Also without axes: the layer reports the error of the key.
  if (axes == wanted) return nullptr;
  axes.push_back(-1);
  return MakeAlong(config, "attention_axes", std::move(last), std::move(axes));
}

}  // namespace

std::unique_ptr<Layer> MakeAlongAxis(const LayerConfig& config, std::unique_ptr<Layer> inner,
                                     int64_t axis) {
  return std::make_unique<MovedLayer>(config, std::move(inner), "axis", std::vector<int64_t>{axis});
}

absl::StatusOr<std::unique_ptr<Layer>> MakeMoved(const LayerConfig& config) {
  const json& values = config.values();
  const auto format = values.find("data_format");
  if (format != values.end() && *format == "channels_first") {
    return MakeAlong(config, "data_format", "channels_last", {});
  }
  if (config.class_name() == "MultiHeadAttention") return MakeAttentionAlong(config);
  const auto axis = values.find("axis");
  if (axis == values.end() || std::find(std::begin(kAlongAxes), std::end(kAlongAxes),
                                        config.class_name()) == std::end(kAlongAxes)) {
    return nullptr;
  }
  std::vector<int64_t> axes = AxesOf(*axis);
  std::sort(axes.begin(), axes.end());  // sorted as in Keras
  json last = json::array();
  for (size_t i = axes.size(); i > 0; --i) last.push_back(-static_cast<int64_t>(i));
  if (axes.empty() || last == axes) return nullptr;
  if (last.size() == 1) last = last[0];
  return MakeAlong(config, "axis", std::move(last), std::move(axes));
}

}  // namespace paracord
