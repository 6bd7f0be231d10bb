// Bidirectional, a wrapper of a recurrent layer.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "config/keras_class.h"
#include "config/unknown_name.h"
#include "keras/layers/inner_layer.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

using nlohmann::json;

enum class Merge { kConcat, kSum, kAverage, kProduct, kNone };

// The sizes, per example, of both directions' outputs and of the merged output.
struct Directions {
  Merge merge = Merge::kConcat;
  bool sequences = false;
  int64_t batch = 0, steps = 1, units = 0;
  int64_t states = 0;  // floats of a direction's returned states
  size_t given = 0;    // number of a direction's first states

  int64_t own() const { return steps * units; }
  int64_t inner() const { return own() + states; }
  bool wide() const { return merge == Merge::kConcat || merge == Merge::kNone; }
  int64_t merged() const { return (wide() ? 2 : 1) * own(); }
  int64_t each() const { return merged() + 2 * states; }
};

class BidirectionalKernel : public Kernel {
 public:
  // `forward`: how many of the variables are the forward direction's.
  BidirectionalKernel(Ops& ops, const Directions& directions, size_t forward)
      : ops_(ops), d_(directions), forward_(forward) {}
  absl::Status Prepare(Layer* const (&layers)[2], std::span<const Shape> inputs,
                       int64_t input_floats) {
    for (size_t i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(inner_[i], layers[i]->MakeKernel(ops_, d_.batch, inputs));
      ASSIGN_OR_RETURN(out_[i], ops_.Allocate(d_.batch * d_.inner()));
      ASSIGN_OR_RETURN(d_out_[i], ops_.Allocate(d_.batch * d_.inner()));
    }
    input_floats_ = input_floats;
    ASSIGN_OR_RETURN(d_input_, ops_.Allocate(input_floats));
    return absl::OkStatus();
  }

  void Forward(const ForwardCall& call) override {
    for (size_t i = 0; i < 2; ++i) {
      ForwardCall inner = call;
      const std::vector<ConstTensor> inputs = InputsOf(call.inputs, i);
      inner.inputs = inputs;
      inner.parameters = Own(call.parameters, i);
      if (!call.rounded.empty()) inner.rounded = Own(call.rounded, i);
      inner.output = out_[i].get();
      inner.key = KeyOf(call.key, i);
      inner_[i]->Forward(inner);
      if (d_.states > 0) {
        ops_.Copy({{d_.batch, d_.states}, {d_.inner(), 1}, {}, {d_.each(), 1}}, false,
                  out_[i].get() + d_.own(), call.output + StatesAt(i));
      }
    }
    MergeOutputs(call.output);
  }

  void Backward(const BackwardCall& call) override {
    for (size_t i = 0; i < 2; ++i) {
      SplitGradient(call.d_output, i);
      BackwardCall inner = call;
      const std::vector<ConstTensor> inputs = InputsOf(call.inputs, i);
      std::vector<Tensor> d_inputs = InputsOf(call.d_inputs, i);
      const bool add = i == 1 && d_inputs[0] != nullptr;
      if (add) d_inputs[0] = d_input_.get();
      inner.inputs = inputs;
      inner.d_inputs = d_inputs;
      inner.parameters = Own(call.parameters, i);
      if (!call.rounded.empty()) inner.rounded = Own(call.rounded, i);
      inner.d_parameters = Own(call.d_parameters, i);
      inner.output = out_[i].get();
      inner.d_output = d_out_[i].get();
      inner.key = KeyOf(call.key, i);
      inner_[i]->Backward(inner);
      if (add) ops_.Add(input_floats_, d_input_.get(), call.d_inputs[0]);
    }
  }

 private:
  static uint64_t KeyOf(uint64_t key, size_t direction) { return Mix64(key ^ (direction + 1)); }
  int64_t StatesAt(size_t direction) const {
    return d_.merged() + static_cast<int64_t>(direction) * d_.states;
  }
  // The entries of a direction's variables.
  template <class Of>
  std::span<Of> Own(std::span<Of> all, size_t direction) const {
    return direction == 0 ? all.first(forward_) : all.subspan(forward_);
  }
  // From (x, states of both directions, mask of x, ...) picks (x, own states, mask of x, no masks
  // for the states).
  template <class Of>
  std::vector<Of> InputsOf(std::span<const Of> all, size_t direction) const {
    std::vector<Of> own{all[0]};
    for (size_t i = 0; i < d_.given; ++i) own.push_back(all[1 + direction * d_.given + i]);
    own.push_back(all[all.size() / 2]);
    own.resize(2 * (1 + d_.given), nullptr);
    return own;
  }
  // The strides of a direction's computed output; the second direction is read backwards.
  std::vector<int64_t> InnerSteps(size_t direction) const {
    return {d_.inner(), direction == 1 ? -d_.units : d_.units, 1};
  }
  int64_t InnerStart(size_t direction) const { return direction == 1 ? d_.own() - d_.units : 0; }
  // The offset of a direction's part in the output.
  int64_t MergedStart(size_t direction) const {
    if (direction == 0 || !d_.wide()) return 0;
    return d_.merge == Merge::kConcat ? d_.units : d_.own();
  }
  std::vector<int64_t> MergedSteps() const {
    return {d_.each(), d_.merge == Merge::kConcat ? 2 * d_.units : d_.units, 1};
  }
  std::vector<int64_t> Dims() const { return {d_.batch, d_.steps, d_.units}; }
  const float* Out(size_t direction) const { return out_[direction].get() + InnerStart(direction); }

  void MergeOutputs(float* output) {
    if (d_.wide()) {
      for (size_t i = 0; i < 2; ++i) {
        ops_.Copy({Dims(), InnerSteps(i), {}, MergedSteps()}, false, Out(i),
                  output + MergedStart(i));
      }
      return;
    }
    for (size_t i = 0; i < 2 && d_.merge == Merge::kAverage; ++i) {
      ops_.Affine(d_.batch * d_.inner(), 0.5f, 0, out_[i].get(), out_[i].get());
    }
    const auto kind = d_.merge == Merge::kProduct ? BinaryKind::kMultiply : BinaryKind::kAdd;
    ops_.Binary(kind, {Dims(), InnerSteps(0), InnerSteps(1), MergedSteps()}, Out(0), Out(1),
                output);
  }

  void SplitGradient(const float* d_output, size_t i) {
    float* to = d_out_[i].get() + InnerStart(i);
    const float* from = d_output + MergedStart(i);
    if (d_.merge == Merge::kProduct) {
      ops_.Binary(BinaryKind::kMultiply, {Dims(), MergedSteps(), InnerSteps(1 - i), InnerSteps(i)},
                  from, Out(1 - i), to);
    } else {
      ops_.Copy({Dims(), MergedSteps(), {}, InnerSteps(i)}, false, from, to);
    }
    if (d_.merge == Merge::kAverage) {
      ops_.Affine(d_.batch * d_.inner(), 0.5f, 0, d_out_[i].get(), d_out_[i].get());
    }
    if (d_.states == 0) return;
    ops_.Copy({{d_.batch, d_.states}, {d_.each(), 1}, {}, {d_.inner(), 1}}, false,
              d_output + StatesAt(i), d_out_[i].get() + d_.own());
  }

  Ops& ops_;
  const Directions d_;
  const size_t forward_;
  std::unique_ptr<Kernel> inner_[2];
  DeviceArray out_[2], d_out_[2], d_input_;
  int64_t input_floats_ = 0;
};

class BidirectionalLayer : public Layer {
 public:
  explicit BidirectionalLayer(LayerConfig& config)
      : Layer(config), freezes_(FreezesWithin(config)) {
    const json* mode = config.Value("merge_mode");
    if (mode == nullptr) {
      merge_ = config.Says("merge_mode") ? Merge::kNone : Merge::kConcat;
    } else {
      const std::string name =
          config.Choice("merge_mode", "concat", {"concat", "sum", "ave", "mul"});
      merge_ = name == "sum"   ? Merge::kSum
               : name == "ave" ? Merge::kAverage
               : name == "mul" ? Merge::kProduct
                               : Merge::kConcat;
    }
    json forward = SpecOf(config, "layer");
    json backward = config.Has("backward_layer") ? SpecOf(config, "backward_layer") : forward;
    const bool own_backward = config.Has("backward_layer");
    if (!own_backward) {
      backward["config"]["go_backwards"] =
          !config.keras2() || forward["config"].value("go_backwards", json(false)) != true;
    }
    static constexpr std::string_view kKinds[] = {"GRU", "LSTM", "SimpleRNN"};
    for (size_t i = 0; i < 2; ++i) {
      const std::string kind = KerasClass(i == 0 ? forward : backward);
      if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) {
        config.Fail(i == 0 ? "layer" : "backward_layer",
                    absl::StrCat("\"", kind, "\"", NotSupported(kind, kKinds)));
        return;
      }
    }
    const std::string name(absl::StripPrefix(NameIn(forward), "forward_"));
    sequences_ = forward["config"].value("return_sequences", json(false)) == true;
    const bool state = forward["config"].value("return_state", json(false)) == true;
    const auto states = [](const json& spec) { return KerasClass(spec) == "LSTM" ? 2 : 1; };
    one_kind_ = KerasClass(forward) == KerasClass(backward);
    states_ = state ? states(forward) : 0;
    for (json* spec : {&forward, &backward}) {
      (*spec)["config"]["zero_output_for_mask"] = sequences_;  // enforced by Keras
      const bool same =
          ((*spec)["config"].value("return_sequences", json(false)) == true) == sequences_ &&
          ((*spec)["config"].value("return_state", json(false)) == true) == state;
      if (!same) {
        config.Fail("backward_layer",
                    "must have return_sequences and return_state of the forward layer");
      } else if (state && states(*spec) != states_) {  // Keras' own shapes are wrong there
        config.Fail("backward_layer", "must have as many states as the forward layer returns");
      }
    }
    inner_[0] = MakeInner(config, "layer", absl::StrCat(config.name(), "/forward_", name), forward);
    // Keras 3 prefixes both names, but keeps the name of an explicit backward layer.
    const std::string prefix = own_backward && !config.keras2() ? "/" : "/backward_";
    inner_[1] = MakeInner(config, "backward_layer",
                          absl::StrCat(config.name(), prefix, NameIn(backward)), backward);
    if (inner_[0] != nullptr && inner_[1] != nullptr) AddActivities(config);
  }

  MaskRule mask_rule() const override { return inner_[0]->mask_rule(); }
  size_t masked_outputs() const override { return merge_ == Merge::kNone ? 2 : 1; }
  bool takes_masks() const override { return true; }
  bool masks_come_along(size_t inputs) const override {
    return inner_[0]->masks_come_along(inputs);
  }
  // Both directions get the first states; layers of different kinds cannot share them.
  size_t most_inputs() const override { return one_kind_ ? 2 * inner_[0]->most_inputs() - 1 : 1; }
  absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                      size_t rank) const override {
    return inner_[0]->ConstantShape(input, constant, rank);
  }
  std::vector<Shape> parts() const override {
    if (merge_ != Merge::kNone && states_ == 0) return {};
    std::vector<Shape> parts{output_};
    if (merge_ == Merge::kNone) parts.push_back(output_);
    for (int64_t i = 0; i < 2 * states_; ++i) parts.push_back({units_});
    return parts;
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const std::vector<Shape> own, InputsOf(inputs));
    Shape out[2];
    for (size_t i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(const Shape all, inner_[i]->OutputShape(own));
      out[i] = states_ > 0 ? inner_[i]->parts()[0] : all;
    }
    if (out[0] != out[1]) {
      return absl::InvalidArgumentError("both directions must have as many units");
    }
    Adopt({inner_[0].get(), inner_[1].get()});
    if (freezes_) FreezeAdopted();
    output_ = out[0];
    units_ = output_.back();
    if (merge_ == Merge::kConcat) output_.back() *= 2;
    if (parts().empty()) return output_;
    return Shape{SizesFor(inputs, 1).each()};
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    const auto own = InputsOf(inputs);
    if (!own.ok()) return 0;
    return inner_[0]->Arithmetic(*own, output) + inner_[1]->Arithmetic(*own, output);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const std::vector<Shape> own, InputsOf(inputs));
    Layer* const layers[] = {inner_[0].get(), inner_[1].get()};
    auto kernel = std::make_unique<BidirectionalKernel>(ops, SizesFor(inputs, batch),
                                                        inner_[0]->variables().size());
    RETURN_IF_ERROR(kernel->Prepare(layers, own, batch * Elements(inputs[0])));
    return kernel;
  }

 private:
  // The activity regularizers of both directions act on their halves of the output.
  void AddActivities(LayerConfig& config) {
    const auto of = [](const Layer& layer) { return layer.activity().value_or(ActivityPenalty()); };
    const ActivityPenalty a = of(*inner_[0]), b = of(*inner_[1]), own = of(*this);
    if (a.l1 == 0 && a.l2 == 0 && b.l1 == 0 && b.l2 == 0) return;
    if (merge_ != Merge::kConcat || a.l1 != b.l1 || a.l2 != b.l2) {
      config.Fail("layer",
                  "an activity_regularizer there must be that of both directions, and "
                  "goes with merge_mode \"concat\" only");
    }
    SetActivity({own.l1 + a.l1, own.l2 + a.l2});
  }

  Directions SizesFor(std::span<const Shape> inputs, int64_t batch) const {
    Directions d{merge_, sequences_, batch, 1, units_, states_ * units_, 0};
    if (sequences_) d.steps = inputs[0][0];
    d.given = (inputs.size() / 2 - 1) / 2;
    return d;
  }
  // The shapes of a direction's inputs.
  static absl::StatusOr<std::vector<Shape>> InputsOf(std::span<const Shape> inputs) {
    const size_t count = inputs.size() / 2;
    if (count % 2 == 0) return absl::InvalidArgumentError("needs first states for both directions");
    const size_t given = (count - 1) / 2;
    for (size_t i = 1; i <= given; ++i) {
      if (inputs[i] == inputs[i + given]) continue;
      return absl::InvalidArgumentError("the first states of both directions must be alike");
    }
    std::vector<Shape> own(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(1 + given));
    own.push_back(inputs[count]);
    own.resize(2 * (1 + given));
    return own;
  }

  const bool freezes_;
  Merge merge_ = Merge::kConcat;
  bool sequences_ = false;
  bool one_kind_ = true;  // both directions have equal classes
  int64_t states_ = 0;    // number of a direction's returned states
  std::unique_ptr<Layer> inner_[2];
  Shape output_;
  int64_t units_ = 0;
};

}  // namespace

std::unique_ptr<Layer> MakeBidirectional(LayerConfig& config) {
  return std::make_unique<BidirectionalLayer>(config);
}

}  // namespace paracord
