// Operations that move elements: Swapaxes, Moveaxis, Flip, Tile, Repeat, Pad, Split, Unstack and
// Take.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/copy_layer.h"
#include "keras/layers/layers.h"
#include "keras/layers/number_array.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

using nlohmann::json;
using Plan = CopyLayer::Plan;

// An operation whose plan is a function of the input's shape.
class PlannedLayer : public CopyLayer {
 public:
  using Planner = std::function<absl::StatusOr<Plan>(const Shape& input)>;
  PlannedLayer(LayerConfig& config, Planner planner)
      : CopyLayer(config), planner_(std::move(planner)) {}
  absl::StatusOr<Plan> PlanFor(const Shape& input) const override { return planner_(input); }

 private:
  const Planner planner_;
};

// Reads the axes of a required, non-empty key.
std::vector<int64_t> RequiredAxes(LayerConfig& config, const char* key) {
  const json* value = config.Value(key);
  if (value == nullptr) {
    config.Fail(key, "must be given: the batch stays");
    return {};
  }
  std::vector<int64_t> axes = AxesOf(*value);
  if (axes.empty()) config.Fail(key, "must be an axis, or a list of them");
  return axes;
}

// Swapaxes and Moveaxis: axes at `from` move to `to`, the others keep their order.
absl::StatusOr<Plan> MoveAxes(const Shape& input, const std::vector<int64_t>& from,
                              const std::vector<int64_t>& to) {
  std::vector<size_t> at, into;
  for (const int64_t axis : from) {
    ASSIGN_OR_RETURN(at.emplace_back(), AxisOf(input, axis));
  }
  for (const int64_t axis : to) {
    ASSIGN_OR_RETURN(into.emplace_back(), AxisOf(input, axis));
  }
  Shape order(input.size(), -1);
  std::vector<bool> moved(input.size());
  for (size_t i = 0; i < at.size(); ++i) {
    if (moved[at[i]] || order[into[i]] >= 0) {
      return absl::InvalidArgumentError("names an axis twice");
    }
    moved[at[i]] = true;
    order[into[i]] = static_cast<int64_t>(at[i]);
  }
  size_t rest = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[rest]) ++rest;
    axis = static_cast<int64_t>(rest++);
  }
  return CopyLayer::Permuted(input, order);
}

// Reverses each of the axes.
absl::StatusOr<Plan> Flip(const Shape& input, const std::vector<int64_t>& axes) {
  Plan plan;
  plan.output = plan.dims = input;
  plan.a = plan.y = RowMajor(input);
  for (const int64_t given : axes) {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(input, given));
    if (plan.a[axis] < 0) return absl::InvalidArgumentError("names an axis twice");
    plan.from += plan.a[axis] * (input[axis] - 1);
    plan.a[axis] = -plan.a[axis];
  }
  return plan;
}

// Repeats the whole tensor along each axis, or (`elements`) each element of it.
Plan Repeated(const Shape& input, const Shape& times, bool elements) {
  Plan plan;
  plan.output = input;
  for (size_t i = 0; i < input.size(); ++i) plan.output[i] *= times[i];
  const std::vector<int64_t> in = RowMajor(input), out = RowMajor(plan.output);
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t apart = out[i] * (elements ? times[i] : 1);
    const int64_t again = out[i] * (elements ? 1 : input[i]);
    plan.dims.insert(plan.dims.end(), {times[i], input[i]});
    plan.a.insert(plan.a.end(), {0, in[i]});
    plan.y.insert(plan.y.end(), {again, apart});
  }
  plan.repeated = true;
  return plan;
}

absl::StatusOr<Plan> Tile(const Shape& input, Shape times) {
  if (times.size() > input.size() + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("has more repeats than ", ShapeName(input), " and its batch have axes"));
  }
  times.insert(times.begin(), input.size() + 1 - times.size(), 1);
  if (times[0] != 1) return absl::InvalidArgumentError("the batch cannot be repeated");
  times.erase(times.begin());
  return Repeated(input, times, false);
}

absl::StatusOr<Plan> Pad(const Shape& input, const PadAround& given, float filling) {
  ASSIGN_OR_RETURN(const PadAround around, PadsOf(given, input));
  Plan plan;
  plan.output = plan.dims = input;
  for (size_t i = 0; i < input.size(); ++i) plan.output[i] += around[i].first + around[i].second;
  plan.a = RowMajor(input);
  plan.y = RowMajor(plan.output);
  for (size_t i = 0; i < input.size(); ++i) plan.to += around[i].first * plan.y[i];
  plan.fill = filling;
  return plan;
}

// Cuts an axis into parts, each an output.
class SplitLayer : public Layer {
 public:
  // Returns the sizes of the parts of an axis of this size.
  using Cut = std::function<absl::StatusOr<std::vector<int64_t>>(int64_t size)>;
  // With `drop`, parts of size 1 lose the axis.
  SplitLayer(LayerConfig& config, int64_t axis, Cut cut, bool drop)
      : Layer(config), axis_(axis), cut_(std::move(cut)), drop_(drop) {}

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, cut_(inputs[0][axis]));
    int64_t all = 0;
    std::vector<Shape> parts;
    for (const int64_t size : sizes) {
      Shape& part = parts.emplace_back(inputs[0]);
      part[axis] = size;
      all = size < 1 || size > inputs[0][axis] ? -1 : all + size;
      if (drop_) part.erase(part.begin() + static_cast<std::ptrdiff_t>(axis));
      if (all < 0) break;
    }
    if (all != inputs[0][axis]) {
      return absl::InvalidArgumentError(absl::StrCat("cannot split axis ", axis_, " of ",
                                                     ShapeName(inputs[0]),
                                                     " so: every part has 1 or more, and all "
                                                     "parts together are the axis"));
    }
    parts_ = std::move(parts);
    return Shape{Elements(inputs[0])};
  }
  std::vector<Shape> parts() const override { return parts_; }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, cut_(inputs[0][axis]));
    const AxisSpan span = SpanOf(1, inputs[0], axis);
    const int64_t n = Elements(inputs[0]);
    std::vector<Way> ways;
    int64_t from = 0, to = 0;
    for (const int64_t size : sizes) {
      const int64_t run = size * span.inner;
      ways.push_back(
          {{{batch, span.outer, run}, {n, span.count * span.inner, 1}, {}, {n, run, 1}}, from, to});
      from += run;
      to += run * span.outer;
    }
    return std::make_unique<PiecesKernel>(ops, std::move(ways));
  }

 private:
  const int64_t axis_;
  const Cut cut_;
  const bool drop_;
  std::vector<Shape> parts_;  // shapes of the last call's outputs
};

// Selects elements along an axis by constant indices from the model file.
class TakeLayer : public Layer {
 public:
  explicit TakeLayer(LayerConfig& config) : Layer(config), keras2_(config.keras2()) {
    const std::vector<int64_t> axes = RequiredAxes(config, "axis");
    if (axes.size() == 1) axis_ = axes[0];
    if (axes.size() > 1) config.Fail("axis", "must be one axis");
    if (config.AnyInteger("batch_dims", 0) != 0) config.Fail("batch_dims", "must be 0");
    const json& args = config.TakeArgs();
    const bool two = args.is_array() && args.size() == 2 && LayerConfig::IsTensor(args[0]) &&
                     !LayerConfig::IsConstant(args[0]);
    if (!two || (LayerConfig::IsTensor(args[1]) && !LayerConfig::IsConstant(args[1]))) {
      config.Fail("args", "must be a tensor, and indices that are numbers");
      return;
    }
    if (LayerConfig::IsTensor(args[1])) return;  // Keeps receives constant indices
    indices_ = ReadNumberArray(args[1]);
    if (!indices_.has_value()) config.Fail("args", "the indices must be whole numbers");
  }
  bool Keeps(const NumberArray& indices) override {
    if (indices_.has_value()) {
      return indices.values == indices_->values && indices.shape == indices_->shape;
    }
    indices_ = indices;
    return true;
  }
  size_t most_inputs() const override { return 2; }  // before Keeps takes one of them

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    RETURN_IF_ERROR(IdsFor(inputs[0], axis).status());
    Shape output = inputs[0];
    const auto at = output.begin() + static_cast<std::ptrdiff_t>(axis);
    output.insert(output.erase(at), indices_->shape.begin(), indices_->shape.end());
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    const AxisSpan span = SpanOf(batch, inputs[0], axis);
    ASSIGN_OR_RETURN(const std::vector<float> rows, IdsFor(inputs[0], axis));
    const auto count = static_cast<int64_t>(rows.size());
    ASSIGN_OR_RETURN(auto ids, ops.Allocate(count));
    ops.Upload(count, rows.data(), ids.get());
    ASSIGN_OR_RETURN(auto table, ops.Allocate(span.outer * span.count * span.inner));
    ASSIGN_OR_RETURN(auto taken, ops.Allocate(span.outer * count * span.inner));
    return std::make_unique<TakeKernel>(ops, span, count, std::move(ids), std::move(table),
                                        std::move(taken));
  }

 private:
  // Moves the axis to the front, to make its elements the rows of a table.
  class TakeKernel : public Kernel {
   public:
    TakeKernel(Ops& ops, const AxisSpan& span, int64_t count, DeviceArray ids, DeviceArray table,
               DeviceArray taken)
        : ops_(ops),
          width_(span.outer * span.inner),
          rows_(span.count),
          count_(count),
          to_front_(ToFront(span)),
          back_(Back(ToFront({span.outer, count, span.inner}))),
          ids_(std::move(ids)),
          table_(std::move(table)),
          taken_(std::move(taken)) {}
    void Forward(const ForwardCall& call) override {
      ops_.Copy(to_front_, false, call.inputs[0], table_.get());
      ops_.Gather(count_, width_, rows_, ids_.get(), table_.get(), taken_.get());
      ops_.Copy(back_, false, taken_.get(), call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] == nullptr) return;
      ops_.Copy(Back(back_), false, call.d_output, taken_.get());
      ops_.ScatterAdd(count_, width_, rows_, ids_.get(), taken_.get(), table_.get());
      ops_.Copy(Back(to_front_), false, table_.get(), call.d_inputs[0]);
    }

   private:
    static Walk ToFront(const AxisSpan& s) {
      return Shorten({{s.count, s.outer, s.inner},
                      {s.inner, s.count * s.inner, 1},
                      {},
                      {s.outer * s.inner, s.inner, 1}});
    }
    static Walk Back(const Walk& walk) { return {walk.dims, walk.y, {}, walk.a}; }

    Ops& ops_;
    const int64_t width_, rows_, count_;
    const Walk to_front_, back_;
    const DeviceArray ids_, table_, taken_;
  };

  // The indices along an axis of the input, made non-negative.
  absl::StatusOr<std::vector<float>> IdsFor(const Shape& input, size_t axis) const {
    const auto size = static_cast<float>(input[axis]);
    std::vector<float> ids;
    for (const float index : indices_->values) {
      const float id = index < 0 && !keras2_ ? index + size : index;
      if (!(id >= 0 && id < size) || id != std::floor(id)) {
        return absl::InvalidArgumentError(
            absl::StrCat("index ", index, " is not within axis ", axis_, " of ", ShapeName(input)));
      }
      ids.push_back(RowToFloat(static_cast<int64_t>(id), input[axis]));
    }
    return ids;
  }

  const bool keras2_;  // Keras 2 refuses negative indices
  int64_t axis_ = 0;
  std::optional<NumberArray> indices_;
};

std::unique_ptr<Layer> MakePad(LayerConfig& config) {
  const char* key = config.keras2() ? "paddings" : "pad_width";
  const json* value = config.Value(key);
  PadAround around;
  bool good = value != nullptr && value->is_array() && !value->empty();
  for (size_t i = 0; good && i < value->size(); ++i) {
    const std::vector<int64_t> pads = AxesOf((*value)[i]);  // at most 1000 each
    good = (pads.size() == 1 || pads.size() == 2) && pads[0] >= 0 && pads.back() >= 0;
    if (good) around.emplace_back(pads[0], pads.back());
  }
  if (!good) config.Fail(key, "must be numbers before and after each axis, of at most 1000");
  const std::string mode = config.Choice(
      "mode", "constant", {"constant", "reflect", "symmetric", "CONSTANT", "REFLECT", "SYMMETRIC"});
  const double filling = config.keras2() ? config.Bound("constant_values", 0)
                                         : config.CallNumber("constant_values", 0);
  if (mode != "constant" && mode != "CONSTANT") {
    return MakeMirrorPad(config, std::move(around), mode == "symmetric" || mode == "SYMMETRIC");
  }
  return std::make_unique<PlannedLayer>(
      config, [around, filling](const Shape& input) -> absl::StatusOr<Plan> {
        return Pad(input, around, static_cast<float>(filling));
      });
}

std::unique_ptr<Layer> MakeBroadcastTo(LayerConfig& config) {
  Shape target = config.Dims("shape");
  if (target.empty() || target[0] != -1) {
    config.Fail("shape", "must begin with the size of the batch");
    target = {-1};
  }
  target.erase(target.begin());
  return std::make_unique<PlannedLayer>(
      config, [target](const Shape& input) -> absl::StatusOr<Plan> {
        Shape times = target;
        bool fits = target.size() == input.size();
        for (size_t i = 0; fits && i < input.size(); ++i) {
          fits = target[i] > 0 && (input[i] == 1 || input[i] == target[i]);
          if (fits) times[i] = target[i] / input[i];
        }
        if (fits) return Repeated(input, times, false);
        return absl::InvalidArgumentError(
            absl::StrCat("cannot broadcast ", ShapeName(input), " to ", ShapeName(target)));
      });
}

std::unique_ptr<Layer> MakeRepeat(LayerConfig& config) {
  const int64_t times = config.AnyInteger("repeats", 1);
  if (times < 1) config.Fail("repeats", "must be at least 1");
  const std::vector<int64_t> axes = RequiredAxes(config, "axis");
  return std::make_unique<PlannedLayer>(
      config, [axes, times](const Shape& input) -> absl::StatusOr<Plan> {
        ASSIGN_OR_RETURN(const size_t axis, AxisOf(input, axes.at(0)));
        Shape each(input.size(), 1);
        each[axis] = times;
        return Repeated(input, each, true);
      });
}

}  // namespace

absl::StatusOr<PadAround> PadsOf(PadAround given, const Shape& input) {
  if (given.size() == 1) given.resize(input.size() + 1, given[0]);
  if (given.size() != input.size() + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its pads are not those of ", ShapeName(input), " and the batch"));
  }
  if (given[0] != std::pair<int64_t, int64_t>{0, 0}) {
    return absl::InvalidArgumentError("the batch cannot be padded");
  }
  given.erase(given.begin());
  return given;
}

std::unique_ptr<Layer> MakeRearrangement(LayerConfig& config) {
  const std::string& name = config.class_name();
  if (name == "Take") return std::make_unique<TakeLayer>(config);
  if (name == "Pad") return MakePad(config);
  if (name == "Repeat") return MakeRepeat(config);
  if (name == "BroadcastTo") return MakeBroadcastTo(config);
  if (name == "Tile") {
    const char* key = config.keras2() ? "multiples" : "repeats";
    const json* value = config.Value(key);
    const Shape times = value == nullptr ? Shape() : AxesOf(*value);
    const bool good = std::all_of(times.begin(), times.end(), [](int64_t n) { return n >= 1; });
    if (times.empty() || !good) config.Fail(key, "must be numbers of 1 to 1000");
    return std::make_unique<PlannedLayer>(config,
                                          [times](const Shape& in) { return Tile(in, times); });
  }
  if (name == "Flip") {
    const std::vector<int64_t> axes = RequiredAxes(config, "axis");
    return std::make_unique<PlannedLayer>(config,
                                          [axes](const Shape& in) { return Flip(in, axes); });
  }
  const bool swap = name == "Swapaxes";
  std::vector<int64_t> from = RequiredAxes(config, swap ? "axis1" : "source");
  std::vector<int64_t> to = RequiredAxes(config, swap ? "axis2" : "destination");
  if (from.size() != to.size()) config.Fail("destination", "must be as many axes as source");
  return std::make_unique<PlannedLayer>(config,
                                        [swap, from, to](const Shape& in) -> absl::StatusOr<Plan> {
                                          ASSIGN_OR_RETURN(const size_t a, AxisOf(in, from.at(0)));
                                          ASSIGN_OR_RETURN(const size_t b, AxisOf(in, to.at(0)));
                                          if (!swap) return MoveAxes(in, from, to);
                                          Shape order(in.size());
                                          std::iota(order.begin(), order.end(), 0);
                                          std::swap(order[a], order[b]);
                                          return CopyLayer::Permuted(in, order);
                                        });
}

std::unique_ptr<Layer> MakeSplit(LayerConfig& config) {
  const bool unstack = config.class_name() == "Unstack";
  const std::vector<int64_t> axes = RequiredAxes(config, "axis");
  const int64_t axis = axes.size() == 1 ? axes[0] : 0;
  if (unstack) {
    config.Ignore("num");
    const auto ones = [](int64_t size) -> absl::StatusOr<std::vector<int64_t>> {
      return std::vector<int64_t>(static_cast<size_t>(std::min<int64_t>(size, 10'000)), 1);
    };
    return std::make_unique<SplitLayer>(config, axis, ones, true);
  }
  const bool keras2 = config.keras2();
  const char* key = keras2 ? "num_or_size_splits" : "indices_or_sections";
  const json* value = config.Value(key);
  config.Ignore("num");
  if (value != nullptr && value->is_array()) {
    const std::vector<int64_t> given = config.Integers(key);
    const auto cut = [keras2, given](int64_t size) -> absl::StatusOr<std::vector<int64_t>> {
      std::vector<int64_t> sizes = given;
      if (keras2) {  // a size may be open
        const int64_t known = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
        const auto open = std::find(sizes.begin(), sizes.end(), -1);
        if (open != sizes.end()) *open = size - known - 1;
        return sizes;
      }
      for (int64_t& at : sizes) at += at < 0 ? size : 0;
      sizes.push_back(size);
      for (size_t i = sizes.size(); i-- > 1;) sizes[i] -= sizes[i - 1];
      return sizes;
    };
    return std::make_unique<SplitLayer>(config, axis, cut, false);
  }
  const int64_t sections = config.AnyInteger(key, 0);
  if (sections < 1 || sections > 10'000) config.Fail(key, "must be a number of parts, or a list");
  const auto cut = [sections](int64_t size) -> absl::StatusOr<std::vector<int64_t>> {
    if (size % sections != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot split ", size, " into ", sections, " parts of one size"));
    }
    return std::vector<int64_t>(static_cast<size_t>(sections), size / sections);
  };
  return std::make_unique<SplitLayer>(config, axis, cut, false);
}

}  // namespace paracord
