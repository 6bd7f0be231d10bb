// where(condition, a, b): elements of a where the condition is not 0, and of b elsewhere.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// An operand of the three, broadcast to the output.
struct Side {
  std::optional<size_t> input;  // nullopt: the operand is a number
  DeviceArray number;
  std::vector<int64_t> steps;
  bool whole = false;  // has the output's shape
  int64_t n = 0;
};

class WhereKernel : public Kernel {
 public:
  // `yes` and `no` (n) are 1 where the condition is nonzero, and where it is zero.
  WhereKernel(Ops& ops, Shape dims, std::array<Side, 3> sides, DeviceArray yes, DeviceArray no,
              DeviceArray wide)
      : ops_(ops),
        dims_(std::move(dims)),
        n_(Elements(dims_)),
        sides_(std::move(sides)),
        yes_(std::move(yes)),
        no_(std::move(no)),
        wide_(std::move(wide)) {}

  void Forward(const ForwardCall& call) override {
    const Side& condition = sides_[0];
    ops_.Copy(Shorten({dims_, condition.steps, {}, RowMajor(dims_)}), false,
              Data(condition, call.inputs), no_.get());
    ops_.Activate({ActivationKind::kNotEqual, 0}, 1, n_, no_.get(), yes_.get());
    ops_.Affine(n_, -1, 1, yes_.get(), no_.get());
    Keep(sides_[1], call.inputs, yes_.get(), call.output);
    Keep(sides_[2], call.inputs, no_.get(), wide_.get());
    ops_.Add(n_, wide_.get(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    const Side& condition = sides_[0];  // a condition has no gradient
    if (condition.input.has_value() && call.d_inputs[0] != nullptr) {
      ops_.Fill(condition.n, 0, call.d_inputs[0]);
    }
    for (const size_t i : {size_t{1}, size_t{2}}) {
      const Side& side = sides_[i];
      if (!side.input.has_value() || call.d_inputs[*side.input] == nullptr) continue;
      float* const d = call.d_inputs[*side.input];
      float* const wide = side.whole ? d : wide_.get();
      const Walk same{{n_}, {1}, {1}, {1}};
      ops_.Binary(BinaryKind::kKeep, same, call.d_output, (i == 1 ? yes_ : no_).get(), wide);
      if (side.whole) continue;
      ops_.Fill(side.n, 0, d);
      ops_.Copy(Shorten({dims_, RowMajor(dims_), {}, side.steps}), true, wide, d);
    }
  }

 private:
  static const float* Data(const Side& side, std::span<const ConstTensor> inputs) {
    return side.input.has_value() ? inputs[*side.input].float32 : side.number.get();
  }
  void Keep(const Side& side, std::span<const ConstTensor> inputs, const float* where, float* y) {
    const std::vector<int64_t> dense = RowMajor(dims_);
    ops_.Binary(BinaryKind::kKeep, Shorten({dims_, side.steps, dense, dense}), Data(side, inputs),
                where, y);
  }

  Ops& ops_;
  const Shape dims_;  // shape of the output, with the batch
  const int64_t n_;
  const std::array<Side, 3> sides_;
  const DeviceArray yes_, no_, wide_;
};

class WhereLayer : public Layer {
 public:
  explicit WhereLayer(LayerConfig& config) : Layer(config) {
    const nlohmann::json& args = config.TakeArgs();
    if (!args.is_array() || args.size() != 3) {
      config.Fail("args", "must be a condition and what to choose from");
      return;
    }
    for (size_t i = 0; i < 3; ++i) {
      if (LayerConfig::IsTensor(args[i])) continue;
      if (args[i].is_number()) numbers_[i] = args[i].get<float>();
      if (args[i].is_boolean()) numbers_[i] = args[i].get<bool>() ? 1.f : 0.f;
      if (!numbers_[i].has_value()) config.Fail("args", "must be tensors or numbers");
    }
  }
  size_t most_inputs() const override { return 3; }
  absl::StatusOr<Shape> ConstantShape(size_t, const Shape& constant, size_t rank) const override {
    return AlignedShape(constant, rank);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    Shape output = inputs[0];
    for (const Shape& input : inputs) {
      bool fits = input.size() == output.size();
      for (size_t i = 0; fits && i < input.size(); ++i) {
        if (output[i] == 1) output[i] = input[i];
        fits = input[i] == 1 || input[i] == output[i];
      }
      if (!fits) {
        return absl::InvalidArgumentError(absl::StrCat(
            "needs operands of as many axes that go together, not ", ShapeName(inputs[0]), " and ",
            ShapeName(input), " (the batch does not count)"));
      }
    }
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape output, OutputShape(inputs));
    const Shape all = WithBatch(batch, output);
    std::array<Side, 3> sides;
    size_t input = 0;
    for (size_t i = 0; i < 3; ++i) {
      if (numbers_[i].has_value()) {
        ASSIGN_OR_RETURN(sides[i].number, ops.Allocate(1));
        ops.Fill(1, *numbers_[i], sides[i].number.get());
        sides[i].steps.assign(all.size(), 0);
        continue;
      }
      const Shape& shape = inputs[input];
      sides[i].input = input++;
      sides[i].steps = BroadcastSteps(batch, shape, output);
      sides[i].whole = shape == output;
      sides[i].n = batch * Elements(shape);
    }
    ASSIGN_OR_RETURN(auto yes, ops.Allocate(Elements(all)));
    ASSIGN_OR_RETURN(auto no, ops.Allocate(Elements(all)));
    ASSIGN_OR_RETURN(auto wide, ops.Allocate(Elements(all)));
    return std::make_unique<WhereKernel>(ops, all, std::move(sides), std::move(yes), std::move(no),
                                         std::move(wide));
  }

 private:
  std::array<std::optional<float>, 3> numbers_;
};

}  // namespace

std::unique_ptr<Layer> MakeWhere(LayerConfig& config) {
  return std::make_unique<WhereLayer>(config);
}

}  // namespace paracord
