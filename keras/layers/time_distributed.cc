// TimeDistributed, which applies a layer to each time step.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/inner_layer.h"

namespace paracord {
namespace {

using nlohmann::json;

// Every step of the input is an example for the inner layer.
class TimeDistributedLayer : public Layer {
 public:
  explicit TimeDistributedLayer(LayerConfig& config)
      : Layer(config),
        freezes_(FreezesWithin(config)),
        own_(activity().value_or(ActivityPenalty())) {
    const json spec = SpecOf(config, "layer");
    // Keras 2 omits the inner layer's name in variable names; a layer from inside a model has no
    // name of its own.
    const bool own_name = config.keras2() || !spec["config"].contains("name");
    const std::string name =
        own_name ? config.name() : absl::StrCat(config.name(), "/", NameIn(spec));
    inner_ = MakeInner(config, "layer", name, spec);
    if (inner_ == nullptr) return;
    // Keras 3 ignores an inner activity_regularizer.
    if (config.keras2()) within_ = inner_->activity();
    const bool makes_mask = inner_->mask_rule() == MaskRule::kCompute && most_inputs() == 1;
    if (makes_mask || !inner_->parts().empty()) {
      config.Fail("layer", absl::StrCat(inner_->class_name(), " is not supported there"));
    }
    of_batch_ = inner_->class_name() == "BatchNormalization";
    // Keras 3 calls the inner layer step by step, Keras 2 once, with the steps as more examples.
    by_step_ = of_batch_ && !config.keras2();
  }

  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool takes_masks() const override { return inner_->takes_masks(); }
  std::vector<std::string_view> mask_arguments() const override { return {"mask"}; }
  std::optional<Activation> activation_after() const override { return inner_->activation_after(); }
  bool is_view() const override { return inner_->is_view(); }
  bool differentiable() const override { return inner_->differentiable(); }
  bool one_mode() const override { return inner_->one_mode(); }
  bool folds() const override { return inner_->folds(); }
  std::optional<Activation> after_folding(size_t count) const override {
    return inner_->after_folding(count);
  }
  size_t most_inputs() const override { return inner_->takes_masks() ? 1 : inner_->most_inputs(); }
  std::optional<int64_t> ids_below() const override { return inner_->ids_below(); }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    for (size_t i = 0; i < (takes_masks() ? 1 : inputs.size()); ++i) {
      if (inputs[i].size() < 2 || inputs[i][0] != inputs[0][0]) {
        return absl::InvalidArgumentError("needs an input of steps");
      }
    }
    ASSIGN_OR_RETURN(const std::vector<Shape> within, InputsWithin(inputs));
    const int64_t steps = inputs[0][0];
    RETURN_IF_ERROR(CheckSteps(steps));
    Shape output;
    for (int64_t i = 0; i < (by_step_ ? steps : 1); ++i) {
      ASSIGN_OR_RETURN(output, inner_->OutputShape(within));
    }
    Adopt({inner_.get()});
    if (freezes_) FreezeAdopted();
    if (within_.has_value()) {  // each step counts as an example
      const auto n = static_cast<float>(steps);
      SetActivity({own_.l1 + within_->l1 / n, own_.l2 + within_->l2 / n});
    }
    output.insert(output.begin(), steps);
    return output;
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    const auto within = InputsWithin(inputs);
    return within.ok() ? output[0] * inner_->Arithmetic(*within, Within(output)) : 0;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t steps = inputs[0][0];
    for (const Shape& input : inputs) RETURN_IF_ERROR(CheckElements({batch, Elements(input)}));
    ASSIGN_OR_RETURN(const std::vector<Shape> within, InputsWithin(inputs));
    if (by_step_) return MakeStepByStep(ops, batch, steps, within);
    ASSIGN_OR_RETURN(auto inner, inner_->MakeKernel(ops, batch * steps, within));
    return std::make_unique<StepsKernel>(std::move(inner), steps);
  }

 private:
  class StepsKernel : public Kernel {
   public:
    StepsKernel(std::unique_ptr<Kernel> inner, int64_t steps)
        : inner_(std::move(inner)), steps_(steps) {}
    void Forward(const ForwardCall& call) override {
      ForwardCall inner = call;
      inner.first_example *= steps_;
      inner_->Forward(inner);
    }
    void Backward(const BackwardCall& call) override {
      BackwardCall inner = call;
      inner.first_example *= steps_;
      inner_->Backward(inner);
    }

   private:
    const std::unique_ptr<Kernel> inner_;
    const int64_t steps_;
  };

  // Calls the inner layer's kernels, one for each step, in turn.
  class StepByStepKernel : public Kernel {
   public:
    struct Plan {
      int64_t batch = 0, steps = 0, each = 0, mask_each = 0;  // floats of one step of an example
      std::vector<int64_t> variables;
    };
    StepByStepKernel(Ops& ops, Plan plan, std::vector<std::unique_ptr<Kernel>> inner)
        : ops_(ops), plan_(std::move(plan)), inner_(std::move(inner)) {}
    absl::Status Prepare() {
      const int64_t n = plan_.batch * plan_.steps * plan_.each;
      for (DeviceArray* array : {&x_, &y_, &dx_, &dy_}) {
        ASSIGN_OR_RETURN(*array, ops_.Allocate(n));
      }
      ASSIGN_OR_RETURN(mask_, ops_.Allocate(plan_.batch * plan_.steps * plan_.mask_each + 1));
      for (const int64_t elements : plan_.variables) {
        ASSIGN_OR_RETURN(d_variables_.emplace_back(), ops_.Allocate(elements));
      }
      return absl::OkStatus();
    }
    void Forward(const ForwardCall& call) override {
      const float* mask = call.inputs.size() > 1 ? call.inputs[1].float32 : nullptr;
      ops_.Copy(ByStep(plan_.each), false, call.inputs[0], x_.get());
      if (mask != nullptr) ops_.Copy(ByStep(plan_.mask_each), false, mask, mask_.get());
      for (size_t i = 0; i < inner_.size(); ++i) {
        ForwardCall inner = call;
        const ConstTensor inputs[] = {At(x_, i), mask == nullptr ? nullptr : MaskAt(i)};
        inner.inputs = std::span(inputs).first(call.inputs.size());
        inner.output = At(y_, i);
        inner_[i]->Forward(inner);
      }
      ops_.Copy(FromStep(plan_.each), false, y_.get(), call.output);
    }
    void Backward(const BackwardCall& call) override {
      const bool masked = call.inputs.size() > 1 && call.inputs[1] != nullptr;
      ops_.Copy(ByStep(plan_.each), false, call.d_output, dy_.get());
      for (size_t i = 0; i < inner_.size(); ++i) {
        BackwardCall inner = call;
        const ConstTensor inputs[] = {At(x_, i), masked ? MaskAt(i) : nullptr};
        const Tensor d_inputs[] = {call.d_inputs[0] == nullptr ? nullptr : At(dx_, i), nullptr};
        std::vector<float*> d_variables(call.d_parameters.begin(), call.d_parameters.end());
        for (size_t v = 0; i > 0 && v < d_variables.size(); ++v) {
          if (d_variables[v] != nullptr) d_variables[v] = d_variables_[v].get();
        }
        inner.inputs = std::span(inputs).first(call.inputs.size());
        inner.d_inputs = std::span(d_inputs).first(call.d_inputs.size());
        inner.output = At(y_, i);
        inner.d_output = At(dy_, i);
        inner.d_parameters = d_variables;
        const auto steps = static_cast<int>(inner_.size());
        inner.later_calls = call.later_calls * steps + steps - 1 - static_cast<int>(i);
        inner_[i]->Backward(inner);
        for (size_t v = 0; i > 0 && v < d_variables.size(); ++v) {
          if (d_variables[v] == nullptr) continue;
          ops_.Add(plan_.variables[v], d_variables[v], call.d_parameters[v]);
        }
      }
      if (call.d_inputs[0] == nullptr) return;
      ops_.Copy(FromStep(plan_.each), false, dx_.get(), call.d_inputs[0]);
    }

   private:
    float* At(const DeviceArray& all, size_t step) const {
      return all.get() + static_cast<int64_t>(step) * plan_.batch * plan_.each;
    }
    float* MaskAt(size_t step) const {
      return mask_.get() + static_cast<int64_t>(step) * plan_.batch * plan_.mask_each;
    }
    // Walks from (batch, steps, each) to (steps, batch, each), and back.
    Walk ByStep(int64_t each) const {
      return {{plan_.steps, plan_.batch, each},
              {each, plan_.steps * each, 1},
              {},
              {plan_.batch * each, each, 1}};
    }
    Walk FromStep(int64_t each) const {
      Walk walk = ByStep(each);
      std::swap(walk.a, walk.y);
      return walk;
    }

    Ops& ops_;
    const Plan plan_;
    const std::vector<std::unique_ptr<Kernel>> inner_;
    DeviceArray x_, y_, dx_, dy_, mask_;
    std::vector<DeviceArray> d_variables_;
  };

  absl::StatusOr<std::unique_ptr<Kernel>> MakeStepByStep(Ops& ops, int64_t batch, int64_t steps,
                                                         const std::vector<Shape>& within) {
    std::vector<std::unique_ptr<Kernel>> inner(static_cast<size_t>(steps));
    for (auto& kernel : inner) {
      ASSIGN_OR_RETURN(kernel, inner_->MakeKernel(ops, batch, within));
    }
    StepByStepKernel::Plan plan{batch, steps, Elements(within[0]), 0, {}};
    if (within.size() > 1 && !within[1].empty()) plan.mask_each = Elements(within[1]);
    for (const VariableSpec& variable : variables()) {
      plan.variables.push_back(VariableElements(variable));
    }
    auto kernel = std::make_unique<StepByStepKernel>(ops, std::move(plan), std::move(inner));
    RETURN_IF_ERROR(kernel->Prepare());
    return kernel;
  }

  absl::Status CheckSteps(int64_t steps) const {
    constexpr int64_t kStepsMax = 4096;
    if (!by_step_ || steps <= kStepsMax) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("a BatchNormalization of each of ", steps, " steps: more than ", kStepsMax));
  }

  static Shape Within(const Shape& shape) { return {shape.begin() + 1, shape.end()}; }
  // The shapes of a step of the inputs, or of the input and its mask if the inner layer takes
  // masks.
  absl::StatusOr<std::vector<Shape>> InputsWithin(std::span<const Shape> inputs) const {
    std::vector<Shape> within{Within(inputs[0])};
    for (size_t i = 1; i < inputs.size() && !takes_masks(); ++i) {
      within.push_back(Within(inputs[i]));
    }
    if (inputs.size() < 2 || !takes_masks()) return within;
    within.emplace_back();
    if (inputs[1].empty()) return within;
    within[1] = Within(inputs[1]);
    if (of_batch_) within[1].push_back(1);  // a mask without axes would be no mask
    if (inputs[1][0] != inputs[0][0] || within[1].empty() ||
        (of_batch_ && within[1].size() != within[0].size())) {
      return absl::InvalidArgumentError(absl::StrCat("a mask of ", ShapeName(inputs[1]),
                                                     " has nothing that ", inner_->class_name(),
                                                     " could be given for a step"));
    }
    return within;
  }

  const bool freezes_;
  const ActivityPenalty own_;
  std::optional<ActivityPenalty> within_;
  std::unique_ptr<Layer> inner_;
  bool of_batch_ = false, by_step_ = false;
};

}  // namespace

std::unique_ptr<Layer> MakeTimeDistributed(LayerConfig& config) {
  return std::make_unique<TimeDistributedLayer>(config);
}

}  // namespace paracord
