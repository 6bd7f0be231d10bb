// SimpleRNN, LSTM and GRU: reads configs, declares variables and shapes.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/recurrent_kernel.h"

namespace paracord {
namespace {

class RecurrentLayer : public Layer {
 public:
  RecurrentLayer(LayerConfig& config, CellKind kind, const std::string& cell)
      : Layer(config),
        keras2_(config.keras2()),
        cell_(NameOfCell(config, cell)),
        return_state_(config.Flag("return_state", false)),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        recurrent_initializer_(config.InitializerOf("recurrent_initializer", "orthogonal")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    plan_.kind = kind;
    plan_.units = config.RequiredInteger("units", 1);
    plan_.activation = config.ActivationOf("activation", "tanh");
    plan_.bias = config.Flag("use_bias", true);
    plan_.sequences = config.Flag("return_sequences", false);
    plan_.go_backwards = config.Flag("go_backwards", false);
    plan_.zero_output = config.Flag("zero_output_for_mask", false);
    plan_.dropout = Rate(config, "dropout");
    plan_.recurrent_dropout = Rate(config, "recurrent_dropout");
    if (kind != CellKind::kSimple) {
      plan_.recurrent_activation = config.ActivationOf("recurrent_activation", "sigmoid");
    }
    for (const Activation& a : {plan_.activation, plan_.recurrent_activation}) {
      if (a.kind == ActivationKind::kGlu) config.Fail("activation", "glu is not supported here");
    }
    plan_.states = kind == CellKind::kLstm ? 2 : 1;
    plan_.gates = kind == CellKind::kSimple ? 1 : kind == CellKind::kLstm ? 4 : 3;
    plan_.kept = kind == CellKind::kSimple ? 0 : kind == CellKind::kLstm ? 5 : 4;
    if (kind == CellKind::kLstm && config.Flag("unit_forget_bias", true)) {
      (*bias_initializer_.mutable_options())["unit_forget"] = 1;
    }
    if (config.Flag("stateful", false)) {
      config.Fail("stateful", "is not supported: batches are computed by any worker, in any order");
    }
    if (config.Flag("time_major", false)) config.Fail("time_major", "is not supported");
    for (const char* key : {"unroll", "implementation", "seed", "use_cudnn"}) config.Ignore(key);
  }

  MaskRule mask_rule() const override {
    return plan_.sequences ? MaskRule::kPass : MaskRule::kStop;
  }
  bool takes_masks() const override { return true; }
  // Keras 3 propagates a mask only to a call with a single tensor, without first states.
  bool masks_come_along(size_t inputs) const override { return keras2_ || inputs == 1; }
  size_t most_inputs() const override { return 1 + plan_.states; }
  absl::StatusOr<Shape> ConstantShape(size_t, const Shape& constant, size_t) const override {
    return ShapeOfOne(constant);
  }
  std::vector<Shape> parts() const override {
    if (!return_state_) return {};
    std::vector<Shape> parts(1 + plan_.states, Shape{plan_.units});
    parts[0] = output_;
    return parts;
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const RecurrentPlan plan, PlanFor(inputs, 1));
    const int64_t wide = plan.gates * plan.units;
    RETURN_IF_ERROR(Declare(0, cell_ + "kernel", {plan.in, wide}, kernel_initializer_));
    RETURN_IF_ERROR(
        Declare(1, cell_ + "recurrent_kernel", {plan.units, wide}, recurrent_initializer_));
    MakeOperand(0);
    if (!plan.reset_before()) MakeOperand(1);  // otherwise the kernel is copied in parts
    if (plan.bias) {
      const Shape bias = plan.kind == CellKind::kGru ? Shape{2, wide} : Shape{wide};
      RETURN_IF_ERROR(Declare(2, cell_ + "bias", bias, bias_initializer_));
    }
    output_ = plan.sequences ? Shape{plan.steps, plan.units} : Shape{plan.units};
    return return_state_ ? Shape{plan.each} : output_;
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    const int64_t steps = inputs[0][0], in = inputs[0][1];
    return steps * plan_.gates * plan_.units * (in + plan_.units);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const RecurrentPlan plan, PlanFor(inputs, batch));
    const Shape& mask = inputs[inputs.size() / 2];
    return MakeRecurrentKernel(ops, plan, !mask.empty());
  }

 private:
  // The cell of an RNN has a name of its own, perhaps equal to the layer's.
  static std::string NameOfCell(LayerConfig& config, const std::string& otherwise) {
    const nlohmann::json* given = config.Value("cell_name");
    const bool named = given != nullptr && given->is_string();
    const std::string name = named ? given->get<std::string>() : otherwise;
    return name.empty() ? "" : name + "/";
  }
  static float Rate(LayerConfig& config, const char* key) {
    const double rate = config.Number(key, 0);
    if (!(rate >= 0 && rate < 1)) config.Fail(key, "must be at least 0 and below 1");
    return static_cast<float>(rate);
  }

  // `inputs` are the sequence, first states, and a mask for each.
  absl::StatusOr<RecurrentPlan> PlanFor(std::span<const Shape> inputs, int64_t batch) const {
    RecurrentPlan plan = plan_;
    const Shape& x = inputs[0];
    const size_t count = inputs.size() / 2;
    if (x.size() != 2 || x[0] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of (steps, features), not ", ShapeName(x)));
    }
    plan.given_states = count - 1;
    if (plan.given_states != 0 && plan.given_states != plan.states) {
      return absl::InvalidArgumentError(absl::StrCat("has ", plan.states, " states and is given ",
                                                     plan.given_states, " first ones"));
    }
    for (size_t i = 1; i < count; ++i) {
      if (inputs[i] == Shape{plan.units}) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "needs a first state of ", ShapeName({plan.units}), ", not ", ShapeName(inputs[i])));
    }
    if (!inputs[count].empty() && inputs[count] != Shape{x[0]}) {
      return absl::InvalidArgumentError(absl::StrCat("its mask is ", ShapeName(inputs[count]),
                                                     ", its input has ", x[0], " steps"));
    }
    plan.batch = batch;
    plan.steps = x[0];
    plan.in = x[1];
    plan.each = (plan.sequences ? plan.steps * plan.units : plan.units) +
                (return_state_ ? static_cast<int64_t>(plan.states) * plan.units : 0);
    return plan;
  }

  const bool keras2_;
  const std::string cell_;  // prefix of the variables' names
  const bool return_state_;
  const Initializer kernel_initializer_, recurrent_initializer_;
  Initializer bias_initializer_;
  RecurrentPlan plan_;  // the part independent of the input
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> MakeRecurrent(LayerConfig& config) {
  if (config.class_name() == "LSTM") {
    return std::make_unique<RecurrentLayer>(config, CellKind::kLstm, "lstm_cell");
  }
  if (config.class_name() == "GRU") {
    const bool after = config.Flag("reset_after", true);
    return std::make_unique<RecurrentLayer>(config, after ? CellKind::kGru : CellKind::kGruGates,
                                            "gru_cell");
  }
  return std::make_unique<RecurrentLayer>(config, CellKind::kSimple, "simple_rnn_cell");
}

}  // namespace paracord
