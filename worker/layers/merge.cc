// Layers that join tensors element by element, and the operators x + y, x * y and so on.
#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/layers/layers.h"
#include "worker/layers/walks.h"

namespace paracord {
namespace {

// One operand's part in a BinaryKernel.
struct Operand {
  bool whole = true;  // it has the shape of the output
  int64_t n = 0;
  Walk reduce;  // from the output's shape, adding
};

class BinaryKernel : public Kernel {
 public:
  struct Plan {
    BinaryKind kind = BinaryKind::kAdd;
    int64_t n = 0;  // of the output
    Walk forward;
    Walk a_with_y, b_with_y;  // y-shaped by operand, into the output's shape
    Operand a, b;
  };
  BinaryKernel(Ops& ops, Plan plan, DeviceArray scratch)
      : ops_(ops), plan_(std::move(plan)), scratch_(std::move(scratch)) {}

  void Forward(const ForwardCall& call) override {
    ops_.Binary(plan_.kind, plan_.forward, call.inputs[0], call.inputs[1], call.output);
  }

  void Backward(const BackwardCall& call) override {
    Left(call);
    Right(call);
  }

 private:
  // Where an operand's gradient may be written in the shape of the output.
  float* Wide(const Operand& operand, float* d) { return operand.whole ? d : scratch_.get(); }
  void Reduce(const Operand& operand, const float* wide, float* d) {
    if (operand.whole) {
      if (wide != d) ops_.Affine(operand.n, 1, 0, wide, d);
      return;
    }
    ops_.Fill(operand.n, 0, d);
    ops_.Copy(operand.reduce, true, wide, d);
  }
  // wide = dy where the comparison holds.
  void Select(BinaryKind comparison, const BackwardCall& call, float* wide) {
    ops_.Binary(comparison, plan_.forward, call.inputs[0], call.inputs[1], wide);
    ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, wide, wide);
  }
  Walk Same() const { return {{plan_.n}, {1}, {1}, {1}}; }

  void Left(const BackwardCall& call) {
    float* d = call.d_inputs[0];
    if (d == nullptr) return;
    float* wide = Wide(plan_.a, d);
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
        return Reduce(plan_.a, call.d_output, d);
    }
  }

  void Right(const BackwardCall& call) {
    float* d = call.d_inputs[1];
    if (d == nullptr) return;
    float* wide = Wide(plan_.b, d);
    switch (plan_.kind) {
      case BinaryKind::kSubtract:
        Reduce(plan_.b, call.d_output, d);
        return ops_.Affine(plan_.b.n, -1, 0, d, d);
      case BinaryKind::kMultiply:
        ops_.Binary(BinaryKind::kMultiply, plan_.a_with_y, call.d_output, call.inputs[0], wide);
        return Reduce(plan_.b, wide, d);
      case BinaryKind::kDivide:  // -dy y / b
        ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, call.output, wide);
        ops_.Binary(BinaryKind::kDivide, plan_.b_with_y, wide, call.inputs[1], wide);
        Reduce(plan_.b, wide, d);
        return ops_.Affine(plan_.b.n, -1, 0, d, d);
      case BinaryKind::kMaximum:
        Select(BinaryKind::kLess, call, wide);
        return Reduce(plan_.b, wide, d);
      case BinaryKind::kMinimum:
        Select(BinaryKind::kGreater, call, wide);
        return Reduce(plan_.b, wide, d);
      default:
        return Reduce(plan_.b, call.d_output, d);
    }
  }

  Ops& ops_;
  const Plan plan_;
  const DeviceArray scratch_;
};

constexpr size_t kNone = 2;

Operand MakeOperand(int64_t batch, const Shape& shape, const Shape& output) {
  Operand operand;
  operand.whole = Elements(shape) == Elements(output);
  operand.n = batch * Elements(shape);
  const Shape all = WithBatch(batch, output);
  operand.reduce = Shorten({all, RowMajor(all), {}, BroadcastSteps(batch, shape, output)});
  return operand;
}

// `constant`: the operand that has no batch, or kNone.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBinaryKernel(Ops& ops, BinaryKind kind, int64_t batch,
                                                         std::span<const Shape> inputs,
                                                         const Shape& output,
                                                         size_t constant = kNone) {
  const Shape all = WithBatch(batch, output);
  const std::vector<int64_t> y = RowMajor(all);
  std::vector<int64_t> a = BroadcastSteps(batch, inputs[0], output);
  std::vector<int64_t> b = BroadcastSteps(batch, inputs[1], output);
  if (constant != kNone) (constant == 0 ? a : b)[0] = 0;
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

class BinaryLayer : public Layer {
 public:
  template <class Of>
  BinaryLayer(const Of& of, BinaryKind kind, bool average)
      : Layer(of), kind_(kind), average_(average) {}

  MaskRule mask_rule() const override { return MaskRule::kOr; }
  bool folds() const override { return true; }
  std::optional<Activation> after_folding(size_t count) const override {
    if (!average_) return std::nullopt;
    return Activation{ActivationKind::kAffine, 1.f / static_cast<float>(count), 0, 0};
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs.size() != 2) return absl::InvalidArgumentError("needs at least two inputs");
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

 private:
  const BinaryKind kind_;
  const bool average_;
};

// 1 where either mask is: max(a, b).
class OrLayer : public BinaryLayer {
 public:
  template <class Of>
  explicit OrLayer(const Of& of) : BinaryLayer(of, BinaryKind::kMaximum, false) {}
  bool differentiable() const override { return false; }
};

// An operator with numbers on one side.
class ArrayOperatorLayer : public Layer {
 public:
  ArrayOperatorLayer(LayerConfig& config, BinaryKind kind, NumberArray array, bool first)
      : Layer(config), binary_(config, kind, false), kind_(kind), first_(first) {
    shape_ = std::move(array.shape);
    values_ = std::move(array.values);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const auto both, Both(inputs));
    return binary_.OutputShape(both);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const auto both, Both(inputs));
    ASSIGN_OR_RETURN(const Shape output, binary_.OutputShape(both));
    ASSIGN_OR_RETURN(auto binary,
                     MakeBinaryKernel(ops, kind_, batch, both, output, first_ ? 0 : 1));
    const auto n = static_cast<int64_t>(values_.size());
    ASSIGN_OR_RETURN(DeviceArray values, ops.Allocate(n));
    ops.Upload(n, values_.data(), values.get());
    return std::make_unique<ArrayKernel>(std::move(binary), std::move(values), first_);
  }

 private:
  class ArrayKernel : public Kernel {
   public:
    ArrayKernel(std::unique_ptr<Kernel> binary, DeviceArray values, bool first)
        : binary_(std::move(binary)), values_(std::move(values)), first_(first) {}
    void Forward(const ForwardCall& call) override {
      ForwardCall both = call;
      const auto inputs = Both<const float*>(call.inputs[0], values_.get());
      both.inputs = inputs;
      binary_->Forward(both);
    }
    void Backward(const BackwardCall& call) override {
      BackwardCall both = call;
      const auto inputs = Both<const float*>(call.inputs[0], values_.get());
      const auto d_inputs = Both<float*>(call.d_inputs[0], nullptr);
      both.inputs = inputs;
      both.d_inputs = d_inputs;
      binary_->Backward(both);
    }

   private:
    template <class T>
    std::array<T, 2> Both(T x, T array) const {
      return first_ ? std::array<T, 2>{array, x} : std::array<T, 2>{x, array};
    }
    const std::unique_ptr<Kernel> binary_;
    const DeviceArray values_;
    const bool first_;
  };

  // The array has as many axes as the input has with its batch, of which it can have but one.
  absl::StatusOr<std::array<Shape, 2>> Both(std::span<const Shape> inputs) const {
    Shape array = shape_;
    if (array.size() == inputs[0].size() + 1 && array[0] == 1) array.erase(array.begin());
    if (array.size() > inputs[0].size()) {
      return absl::InvalidArgumentError(absl::StrCat("an array of ", ShapeName(shape_),
                                                     " does not go with examples of ",
                                                     ShapeName(inputs[0])));
    }
    array.insert(array.begin(), inputs[0].size() - array.size(), 1);
    return first_ ? std::array<Shape, 2>{array, inputs[0]} : std::array<Shape, 2>{inputs[0], array};
  }

  BinaryLayer binary_;
  const BinaryKind kind_;
  const bool first_;
  Shape shape_;
  std::vector<float> values_;
};

struct NamedKind {
  std::string_view class_name;
  BinaryKind kind;
};
constexpr NamedKind kKinds[] = {
    {"Add", BinaryKind::kAdd},           {"Average", BinaryKind::kAdd},
    {"Subtract", BinaryKind::kSubtract}, {"Multiply", BinaryKind::kMultiply},
    {"Divide", BinaryKind::kDivide},     {"TrueDivide", BinaryKind::kDivide},
    {"Maximum", BinaryKind::kMaximum},   {"Minimum", BinaryKind::kMinimum},
};

std::optional<BinaryKind> KindOf(const std::string& class_name) {
  for (const NamedKind& known : kKinds) {
    if (known.class_name == class_name) return known.kind;
  }
  return std::nullopt;
}

// What an operator does to its tensor when the other side is the number c.
std::optional<Activation> WithNumber(const std::string& op, float c, bool number_first) {
  using K = ActivationKind;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (op == "Add") return Activation{K::kAffine, 1, c, 0};
  if (op == "Multiply") return Activation{K::kAffine, c, 0, 0};
  if (op == "Maximum") return Activation{K::kClip, c, kInfinity, 0};
  if (op == "Minimum") return Activation{K::kClip, -kInfinity, c, 0};
  if (op == "Subtract") {
    return number_first ? Activation{K::kAffine, -1, c, 0} : Activation{K::kAffine, 1, -c, 0};
  }
  if (op == "Divide" || op == "TrueDivide") {
    return number_first ? Activation{K::kPower, c, -1, 0} : Activation{K::kAffine, 1 / c, 0, 0};
  }
  if (op == "Power" && !number_first) return Activation{K::kPower, 1, c, 0};
  if (op == "NotEqual") return Activation{K::kNotEqual, c, 0, 0};
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Layer> MakeMerge(LayerConfig& config) {
  const auto kind = KindOf(config.class_name());
  if (!kind.has_value()) return nullptr;
  return std::make_unique<BinaryLayer>(config, *kind, config.class_name() == "Average");
}

std::unique_ptr<Layer> MakeOperator(LayerConfig& config) {
  const nlohmann::json& args = config.args();
  std::unique_ptr<Layer> layer;
  const auto with_numbers = [&](NumberArray array, bool first) -> std::unique_ptr<Layer> {
    if (array.shape.empty()) {
      const auto activation = WithNumber(config.class_name(), array.values[0], first);
      return activation.has_value() ? MakeActivationLayer(config, *activation) : nullptr;
    }
    const auto kind = KindOf(config.class_name());
    if (!kind.has_value()) return nullptr;
    return std::make_unique<ArrayOperatorLayer>(config, *kind, std::move(array), first);
  };
  if (!args.is_array() || args.size() != 2) {
    config.Fail("args", "must be two operands");
    return MakeIdentity(config);
  }
  if (std::optional<NumberArray> left = config.TakeArray(args[0])) {
    layer = with_numbers(*std::move(left), true);
  } else if (std::optional<NumberArray> right = config.TakeArray(args[1])) {
    layer = with_numbers(*std::move(right), false);
  } else if (!std::all_of(args.begin(), args.end(), LayerConfig::IsTensor)) {
    config.Fail("args", "must be tensors, numbers or arrays of numbers");
    return MakeIdentity(config);
  } else if (config.class_name() == "LogicalOr") {
    layer = std::make_unique<OrLayer>(config);
  } else {
    layer = MakeMerge(config);
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
