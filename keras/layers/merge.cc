// Layers that join tensors element by element (Add, Multiply, ...), and the operators x + y, x * y,
// ...
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// An operand of a BinaryKernel.
struct Operand {
  bool whole = true;  // has the output's shape
  int64_t n = 0;
  Walk reduce;  // adds from the output's shape into the operand's
};

class BinaryKernel : public Kernel {
 public:
  struct Plan {
    BinaryKind kind = BinaryKind::kAdd;
    int64_t n = 0;  // elements of the output
    Walk forward;
    Walk a_with_y, b_with_y;  // combine a y-shaped tensor with an operand, into the output's shape
    Operand a, b;
  };
  BinaryKernel(Ops& ops, Plan plan, DeviceArray scratch)
      : ops_(ops), plan_(std::move(plan)), scratch_(std::move(scratch)) {}

  void Forward(const ForwardCall& call) override {
    ops_.Binary(plan_.kind, plan_.forward, call.inputs[0], call.inputs[1], call.output);
  }

  void Backward(const BackwardCall& call) override {
    if (plan_.kind == BinaryKind::kAddRelu && plan_.a.whole && plan_.b.whole) {
      for (const Tensor& d : call.d_inputs) {
        if (d != nullptr) BeforeRelu(call, d);
      }
      return;
    }
    if (plan_.kind == BinaryKind::kAddRelu) BeforeRelu(call, call.d_output);
    Left(call);
    Right(call);
  }

 private:
  void BeforeRelu(const BackwardCall& call, Tensor d) {
    ops_.ActivateBackward({ActivationKind::kRelu}, 1, plan_.n, nullptr, call.output, call.d_output,
                          d);
  }
  // The memory for an operand's gradient in the shape of the output.
  Tensor Wide(const Operand& operand, Tensor d) {
    return operand.whole ? d : Tensor(scratch_.get());
  }
  // Reduces the gradient in Wide's memory to the operand's shape.
  void Reduce(const Operand& operand, ConstTensor wide, Tensor d) {
    if (operand.whole) return;
    ops_.Fill(operand.n, 0, d);
    ops_.Copy(operand.reduce, true, wide, d);
  }
  // Handles an operand whose gradient equals the output's.
  void Pass(const Operand& operand, const BackwardCall& call, Tensor d) {
    if (operand.whole) return ops_.Convert(operand.n, call.d_output, d);
    Reduce(operand, call.d_output, d);
  }
  // Computes wide = dy where the comparison holds, and 0 elsewhere.
  void Select(BinaryKind comparison, const BackwardCall& call, float* wide) {
    ops_.Binary(comparison, plan_.forward, call.inputs[0], call.inputs[1], wide);
    ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, wide, wide);
  }
  Walk Same() const { return {{plan_.n}, {1}, {1}, {1}}; }

  void Left(const BackwardCall& call) {
    const Tensor d = call.d_inputs[0];
    if (d == nullptr) return;
    const Tensor wide = Wide(plan_.a, d);
    switch (plan_.kind) {
      case BinaryKind::kMultiply:
      case BinaryKind::kDivide:
        ops_.Binary(plan_.kind, plan_.b_with_y, call.d_output, call.inputs[1], wide);
        return Reduce(plan_.a, wide, d);
      case BinaryKind::kMaximum:
        Select(BinaryKind::kGreaterEqual, call, wide);
        return Reduce(plan_.a, wide, d);
      case BinaryKind::kMinimum:
        Select(BinaryKind::kLessEqual, call, wide);
        return Reduce(plan_.a, wide, d);
      default:
        return Pass(plan_.a, call, d);
    }
  }

  void Right(const BackwardCall& call) {
    const Tensor d = call.d_inputs[1];
    if (d == nullptr) return;
    const Tensor wide = Wide(plan_.b, d);
    switch (plan_.kind) {
      case BinaryKind::kSubtract:
        Pass(plan_.b, call, d);
        return ops_.Affine(plan_.b.n, -1, 0, d, d);
      case BinaryKind::kMultiply:
        ops_.Binary(BinaryKind::kMultiply, plan_.a_with_y, call.d_output, call.inputs[0], wide);
        return Reduce(plan_.b, wide, d);
      case BinaryKind::kDivide:  // -dy y / b
        ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, call.output, wide);
        ops_.Binary(BinaryKind::kDivide, plan_.b_with_y, wide, call.inputs[1], wide);
        Reduce(plan_.b, wide, d);
        return ops_.Affine(plan_.b.n, -1, 0, d, d);
      case BinaryKind::kModulo:  // -dy floor(a / b), and y - a is -b floor(a / b)
        ops_.Binary(BinaryKind::kSubtract, plan_.a_with_y, call.output, call.inputs[0], wide);
        ops_.Binary(BinaryKind::kDivide, plan_.b_with_y, wide, call.inputs[1], wide);
        ops_.Activate({ActivationKind::kRound}, 1, plan_.n, wide, wide);
        ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, wide, wide);
        return Reduce(plan_.b, wide, d);
      case BinaryKind::kMaximum:
        Select(BinaryKind::kLess, call, wide);
        return Reduce(plan_.b, wide, d);
      case BinaryKind::kMinimum:
        Select(BinaryKind::kGreater, call, wide);
        return Reduce(plan_.b, wide, d);
      default:
        return Pass(plan_.b, call, d);
    }
  }

  Ops& ops_;
  const Plan plan_;
  const DeviceArray scratch_;
};

Operand MakeOperand(int64_t batch, const Shape& shape, const Shape& output) {
  Operand operand;
  operand.whole = Elements(shape) == Elements(output);
  operand.n = batch * Elements(shape);
  const Shape all = WithBatch(batch, output);
  operand.reduce = Shorten({all, RowMajor(all), {}, BroadcastSteps(batch, shape, output)});
  return operand;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBinaryKernel(Ops& ops, BinaryKind kind, int64_t batch,
                                                         std::span<const Shape> inputs,
                                                         const Shape& output) {
  const Shape all = WithBatch(batch, output);
  const std::vector<int64_t> y = RowMajor(all);
  const std::vector<int64_t> a = BroadcastSteps(batch, inputs[0], output);
  const std::vector<int64_t> b = BroadcastSteps(batch, inputs[1], output);
  BinaryKernel::Plan plan;
  plan.kind = kind;
  plan.n = Elements(all);
  plan.forward = Shorten({all, a, b, y});
  plan.a_with_y = Shorten({all, y, a, y});
  plan.b_with_y = Shorten({all, y, b, y});
  plan.a = MakeOperand(batch, inputs[0], output);
  plan.b = MakeOperand(batch, inputs[1], output);
  DeviceArray scratch;
  if (!plan.a.whole || !plan.b.whole) {
    ASSIGN_OR_RETURN(scratch, ops.Allocate(plan.n));
  }
  return std::make_unique<BinaryKernel>(ops, std::move(plan), std::move(scratch));
}

// True for operators with results of ones and zeros, without a gradient.
bool GivesTruth(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::kGreaterEqual:
    case BinaryKind::kLess:
    case BinaryKind::kLessEqual:
    case BinaryKind::kGreater:
    case BinaryKind::kEqual:
    case BinaryKind::kNotEqual:
    case BinaryKind::kAnd:
    case BinaryKind::kOr:
      return true;
    default:
      return false;
  }
}

std::optional<Activation> AfterOperator(const Layer& layer) {
  if (layer.class_name() != "FloorDivide") return std::nullopt;
  return Activation{ActivationKind::kFloor};
}

class BinaryLayer : public Layer {
 public:
  template <class Of>
  BinaryLayer(const Of& of, BinaryKind kind, bool average, bool operation = false)
      : Layer(of), kind_(kind), average_(average), operation_(operation) {}

  bool differentiable() const override { return !GivesTruth(kind_); }
  MaskRule mask_rule() const override { return MaskRule::kOr; }
  bool folds() const override { return true; }
  std::optional<Activation> activation_after() const override { return AfterOperator(*this); }
  std::optional<Activation> after_folding(size_t count) const override {
    if (!average_) return std::nullopt;
    return Activation{ActivationKind::kAffine, 1.f / static_cast<float>(count), 0, 0};
  }

  absl::StatusOr<Shape> ConstantShape(size_t, const Shape& constant, size_t rank) const override {
    return operation_ ? AlignedShape(constant, rank) : ShapeOfOne(constant);
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs.size() != 2) return absl::InvalidArgumentError("needs at least two inputs");
    // Aligned at the last axis, one operand's batch would meet another axis of the other.
    if (operation_ && inputs[0].size() != inputs[1].size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs operands of as many axes, not ", ShapeName(inputs[0]), " and ",
                       ShapeName(inputs[1]), " (the batch does not count)"));
    }
    const Shape& more = inputs[0].size() >= inputs[1].size() ? inputs[0] : inputs[1];
    const Shape& less = inputs[0].size() >= inputs[1].size() ? inputs[1] : inputs[0];
    Shape output = more;
    for (size_t i = 0; i < less.size(); ++i) {
      int64_t& dim = output[more.size() - less.size() + i];
      if (dim == 1) dim = less[i];
      if (less[i] != 1 && less[i] != dim) {
        return absl::InvalidArgumentError(absl::StrCat("its inputs' shapes ", ShapeName(inputs[0]),
                                                       " and ", ShapeName(inputs[1]),
                                                       " do not go together"));
      }
    }
    return output;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape output, OutputShape(inputs));
    return MakeBinaryKernel(ops, kind_, batch, inputs, output);
  }
  bool ends_in(const Activation& activation) const override {
    return kind_ == BinaryKind::kAdd && activation.kind == ActivationKind::kRelu;
  }
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape>) const override {
    const bool takes = kind_ == BinaryKind::kAdd || kind_ == BinaryKind::kMultiply;
    return takes ? Bfloat16::kIfComputed : Bfloat16::kNever;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(const KernelForm& form, Ops& ops,
                                                       int64_t batch,
                                                       std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape output, OutputShape(inputs));
    const BinaryKind kind = form.ends_in.has_value() ? BinaryKind::kAddRelu : kind_;
    return MakeBinaryKernel(ops, kind, batch, inputs, output);
  }

 private:
  const BinaryKind kind_;
  const bool average_, operation_;
};

// Gives 1 where either mask is 1.
class OrLayer : public BinaryLayer {
 public:
  template <class Of>
  explicit OrLayer(const Of& of) : BinaryLayer(of, BinaryKind::kOr, false) {}
};

struct NamedKind {
  std::string_view class_name;
  BinaryKind kind;
};
constexpr NamedKind kKinds[] = {
    {"Add", BinaryKind::kAdd},
    {"Average", BinaryKind::kAdd},
    {"Divide", BinaryKind::kDivide},
    {"Equal", BinaryKind::kEqual},
    {"FloorDivide", BinaryKind::kDivide},
    {"Greater", BinaryKind::kGreater},
    {"GreaterEqual", BinaryKind::kGreaterEqual},
    {"Less", BinaryKind::kLess},
    {"LessEqual", BinaryKind::kLessEqual},
    {"LogicalAnd", BinaryKind::kAnd},
    {"LogicalOr", BinaryKind::kOr},
    {"Maximum", BinaryKind::kMaximum},
    {"Minimum", BinaryKind::kMinimum},
    {"Mod", BinaryKind::kModulo},
    {"Multiply", BinaryKind::kMultiply},
    {"NotEqual", BinaryKind::kNotEqual},
    {"Subtract", BinaryKind::kSubtract},
    {"TrueDivide", BinaryKind::kDivide},
};

std::optional<BinaryKind> KindOf(const std::string& class_name) {
  for (const NamedKind& known : kKinds) {
    if (known.class_name == class_name) return known.kind;
  }
  return std::nullopt;
}

// The activation equivalent to an operator with a number c on a side, if any.
std::optional<Activation> WithNumber(const std::string& op, float c, bool number_first) {
  using K = ActivationKind;
  if (op == "Add") return Activation{K::kAffine, 1, c, 0};
  if (op == "Multiply") return Activation{K::kAffine, c, 0, 0};
  if (op == "Subtract") {
    return number_first ? Activation{K::kAffine, -1, c, 0} : Activation{K::kAffine, 1, -c, 0};
  }
  const bool divides = op == "Divide" || op == "TrueDivide";
  if (divides && number_first) return Activation{K::kPower, c, -1, 0};
  if (op == "Power" && !number_first) return Activation{K::kPower, 1, c, 0};
  if (op == "NotEqual") return Activation{K::kNotEqual, c, 0, 0};
  return std::nullopt;
}

// Computes f(x) op c, or c op x, for an operator without an equivalent activation.
class WithNumberLayer : public Layer {
 public:
  WithNumberLayer(LayerConfig& config, BinaryKind kind, float number, bool number_first,
                  std::optional<Activation> f = std::nullopt)
      : Layer(config), kind_(kind), number_(number), number_first_(number_first), f_(f) {}
  bool differentiable() const override { return !GivesTruth(kind_); }
  std::optional<Activation> activation_after() const override { return AfterOperator(*this); }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override { return inputs[0]; }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(DeviceArray number, ops.Allocate(1));
    ops.Fill(1, number_, number.get());
    return std::make_unique<WithNumberKernel>(ops, kind_, batch * Elements(inputs[0]),
                                              std::move(number), number_first_, f_);
  }

 private:
  class WithNumberKernel : public Kernel {
   public:
    WithNumberKernel(Ops& ops, BinaryKind kind, int64_t n, DeviceArray number, bool number_first,
                     std::optional<Activation> f)
        : ops_(ops),
          kind_(kind),
          n_(n),
          number_(std::move(number)),
          number_first_(number_first),
          f_(f) {}
    void Forward(const ForwardCall& call) override {
      const float *x = call.inputs[0], *c = number_.get();
      if (f_.has_value()) {
        ops_.Activate(*f_, 1, n_, x, call.output);
        x = call.output;
      }
      if (number_first_) {
        ops_.Binary(kind_, {{n_}, {0}, {1}, {1}}, c, x, call.output);
      } else {
        ops_.Binary(kind_, WithRight(), x, c, call.output);
      }
    }
    void Backward(const BackwardCall& call) override {
      float* const dx = call.d_inputs[0];
      if (dx == nullptr) return;
      switch (kind_) {
        case BinaryKind::kDivide:
          ops_.Binary(kind_, WithRight(), call.d_output, number_.get(), dx);
          break;
        case BinaryKind::kMaximum:  // as in TensorFlow, the first operand of a tie gets all
          Keep(number_first_ ? BinaryKind::kGreater : BinaryKind::kGreaterEqual, call, dx);
          break;
        case BinaryKind::kMinimum:
          Keep(number_first_ ? BinaryKind::kLess : BinaryKind::kLessEqual, call, dx);
          break;
        default:  // x mod c
          ops_.Affine(n_, 1, 0, call.d_output, dx);
      }
      if (f_.has_value()) {
        ops_.ActivateBackward(*f_, 1, n_, call.inputs[0], call.output, dx, dx);
      }
    }

   private:
    Walk WithRight() const { return {{n_}, {1}, {0}, {1}}; }
    // Passes the gradient on where the comparison of the input with the number holds.
    void Keep(BinaryKind where, const BackwardCall& call, float* dx) {
      ops_.Binary(where, WithRight(), call.inputs[0], number_.get(), dx);
      ops_.Binary(BinaryKind::kKeep, {{n_}, {1}, {1}, {1}}, call.d_output, dx, dx);
    }

    Ops& ops_;
    const BinaryKind kind_;
    const int64_t n_;
    const DeviceArray number_;
    const bool number_first_;
    const std::optional<Activation> f_;
  };

  const BinaryKind kind_;
  const float number_;
  const bool number_first_;
  const std::optional<Activation> f_;
};

std::unique_ptr<Layer> MakeWithNumber(LayerConfig& config, float number, bool first) {
  const auto activation = WithNumber(config.class_name(), number, first);
  if (activation.has_value()) return MakeActivationLayer(config, *activation);
  const auto kind = KindOf(config.class_name());
  if (config.class_name() == "Power" && number > 0) {  // e^(x ln c)
    return MakeActivations(config, {ActivationKind::kAffine, std::log(number)},
                           {ActivationKind::kExponential});
  }
  if (!kind.has_value() || (*kind == BinaryKind::kModulo && first)) return nullptr;
  return std::make_unique<WithNumberLayer>(config, *kind, number, first);
}

}  // namespace

std::unique_ptr<Layer> MakeMerge(LayerConfig& config) {
  const auto kind = KindOf(config.class_name());
  if (!kind.has_value()) return nullptr;
  return std::make_unique<BinaryLayer>(config, *kind, config.class_name() == "Average");
}

std::unique_ptr<Layer> MakeLogarithm(LayerConfig& config, float base) {
  return std::make_unique<WithNumberLayer>(config, BinaryKind::kDivide, std::log(base), false,
                                           Activation{ActivationKind::kLog});
}

std::unique_ptr<Layer> MakeOperator(LayerConfig& config) {
  const nlohmann::json& args = config.TakeArgs();
  if (config.class_name() == "AddN") {  // takes a list
    return std::make_unique<BinaryLayer>(config, BinaryKind::kAdd, false, true);
  }
  std::unique_ptr<Layer> layer;
  if (!args.is_array() || args.size() != 2) {
    config.Fail("args", "must be two operands");
    return MakeIdentity(config);
  }
  if (args[0].is_number()) {
    layer = MakeWithNumber(config, args[0].get<float>(), true);
  } else if (args[1].is_number()) {
    layer = MakeWithNumber(config, args[1].get<float>(), false);
  } else if (!std::all_of(args.begin(), args.end(), LayerConfig::IsTensor)) {
    config.Fail("args", "must be tensors or numbers");
    return MakeIdentity(config);
  } else {
    const auto kind = KindOf(config.class_name());
    if (kind.has_value()) layer = std::make_unique<BinaryLayer>(config, *kind, false, true);
  }
  if (layer != nullptr) return layer;
  config.Fail("args", "this operator is not supported with these operands");
  return MakeIdentity(config);
}

std::unique_ptr<Layer> MakeAddLayer(const Layer& of) {
  return std::make_unique<BinaryLayer>(of, BinaryKind::kAdd, false);
}

std::unique_ptr<Layer> MakeOrLayer(const Layer& of) {
  return std::make_unique<OrLayer>(static_cast<const Layer&>(of));
}

}  // namespace paracord
