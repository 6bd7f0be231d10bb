// Operations along axes: sums, extremes, moments, norms and more.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/reduction.h"
#include "keras/layers/unit_input.h"

namespace paracord {
namespace {

using K = ActivationKind;

// Sums elements times `scale`, after applying `before` unless linear.
class SumKernel : public Kernel {
 public:
  SumKernel(Ops& ops, Reduction r, Activation before, float scale, DeviceArray wide)
      : ops_(ops), r_(std::move(r)), before_(before), scale_(scale), wide_(std::move(wide)) {}
  void Forward(const ForwardCall& call) override {
    const float* x = call.inputs[0];
    if (wide_ != nullptr) {
      ops_.Activate(before_, 1, r_.n, x, wide_.get());
      x = wide_.get();
    }
    r_.Sum(ops_, x, call.output);
    if (scale_ != 1) ops_.Affine(r_.sums, scale_, 0, call.output, call.output);
  }
  void Backward(const BackwardCall& call) override {
    float* const dx = call.d_inputs[0];
    if (dx == nullptr) return;
    if (scale_ != 1) ops_.Affine(r_.sums, scale_, 0, call.d_output, call.d_output);
    ops_.Copy(r_.spread(), false, call.d_output, dx);
    if (wide_ == nullptr) return;
    ops_.ActivateBackward(before_, 1, r_.n, call.inputs[0], wide_.get(), dx, dx);
  }

 private:
  Ops& ops_;
  const Reduction r_;
  const Activation before_;
  const float scale_;
  const DeviceArray wide_;  // (n), may be null
};

// Gives 1 where at least `least` elements along the axes are not 0.
class CountKernel : public Kernel {
 public:
  CountKernel(Ops& ops, Reduction r, int64_t least, DeviceArray wide)
      : ops_(ops), r_(std::move(r)), least_(least), wide_(std::move(wide)) {}
  void Forward(const ForwardCall& call) override {
    ops_.Activate({K::kNotEqual, 0}, 1, r_.n, call.inputs[0], wide_.get());
    r_.Sum(ops_, wide_.get(), call.output);
    const auto below = static_cast<float>(least_ - 1);
    ops_.Affine(r_.sums, 1, -below, call.output, call.output);
    ops_.Activate({K::kClip, 0, 1}, 1, r_.sums, call.output, call.output);
  }
  void Backward(const BackwardCall&) override {}

 private:
  Ops& ops_;
  const Reduction r_;
  const int64_t least_;
  const DeviceArray wide_;
};

// The maximum or minimum; equal elements share the gradient, as in TensorFlow.
class ExtremeKernel : public Kernel {
 public:
  ExtremeKernel(Ops& ops, Reduction r, Largest largest, bool smallest, DeviceArray wide,
                DeviceArray share)
      : ops_(ops),
        r_(std::move(r)),
        largest_(std::move(largest)),
        smallest_(smallest),
        wide_(std::move(wide)),
        share_(std::move(share)) {}
  void Forward(const ForwardCall& call) override {
    if (!smallest_) return largest_.Run(call.inputs[0], call.output);
    ops_.Affine(r_.n, -1, 0, call.inputs[0], wide_.get());
    largest_.Run(wide_.get(), call.output);
    ops_.Affine(r_.sums, -1, 0, call.output, call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    const auto kind = smallest_ ? BinaryKind::kLessEqual : BinaryKind::kGreaterEqual;
    ops_.Binary(kind, r_.by, call.inputs[0], call.output, wide_.get());
    r_.Sum(ops_, wide_.get(), share_.get());
    ops_.Binary(BinaryKind::kDivide, {{r_.sums}, {1}, {1}, {1}}, call.d_output, share_.get(),
                share_.get());
    ops_.Binary(BinaryKind::kMultiply, r_.by, wide_.get(), share_.get(), call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const Reduction r_;
  Largest largest_;
  const bool smallest_;
  const DeviceArray wide_, share_;
};

// The mean of squared differences from the mean.
class VarianceKernel : public Kernel {
 public:
  VarianceKernel(Ops& ops, Reduction r, DeviceArray wide, DeviceArray mean)
      : ops_(ops), r_(std::move(r)), wide_(std::move(wide)), mean_(std::move(mean)) {}
  void Forward(const ForwardCall& call) override {
    const float each = 1.f / static_cast<float>(r_.count);
    Differences(call.inputs[0]);
    ops_.Activate({K::kPower, 1, 2}, 1, r_.n, wide_.get(), wide_.get());
    r_.Sum(ops_, wide_.get(), call.output);
    ops_.Affine(r_.sums, each, 0, call.output, call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    Differences(call.inputs[0]);
    ops_.Affine(r_.sums, 2.f / static_cast<float>(r_.count), 0, call.d_output, call.d_output);
    ops_.Binary(BinaryKind::kMultiply, r_.by, wide_.get(), call.d_output, call.d_inputs[0]);
  }

 private:
  void Differences(const float* x) {
    r_.Sum(ops_, x, mean_.get());
    ops_.Affine(r_.sums, 1.f / static_cast<float>(r_.count), 0, mean_.get(), mean_.get());
    ops_.Binary(BinaryKind::kSubtract, r_.by, x, mean_.get(), wide_.get());
  }

  Ops& ops_;
  const Reduction r_;
  const DeviceArray wide_, mean_;
};

// The logarithm of the sum of exp, with the maximum factored out unless infinite.
class LogSumExpKernel : public Kernel {
 public:
  LogSumExpKernel(Ops& ops, Reduction r, Largest largest, DeviceArray wide, DeviceArray most)
      : ops_(ops),
        r_(std::move(r)),
        largest_(std::move(largest)),
        wide_(std::move(wide)),
        most_(std::move(most)) {}
  void Forward(const ForwardCall& call) override {
    constexpr float kMost = std::numeric_limits<float>::max();
    largest_.Run(call.inputs[0], most_.get());
    ops_.Activate({K::kClip, -kMost, kMost}, 1, r_.sums, most_.get(), most_.get());
    ops_.Binary(BinaryKind::kSubtract, r_.by, call.inputs[0], most_.get(), wide_.get());
    ops_.Activate({K::kExponential}, 1, r_.n, wide_.get(), wide_.get());
    r_.Sum(ops_, wide_.get(), call.output);
    ops_.Activate({K::kLog}, 1, r_.sums, call.output, call.output);
    ops_.Add(r_.sums, most_.get(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    ops_.Binary(BinaryKind::kSubtract, r_.by, call.inputs[0], call.output, wide_.get());
    ops_.Activate({K::kExponential}, 1, r_.n, wide_.get(), wide_.get());
    ops_.Binary(BinaryKind::kMultiply, r_.by, wide_.get(), call.d_output, call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const Reduction r_;
  Largest largest_;
  const DeviceArray wide_, most_;
};

// Computes x / max(length of x, epsilon) along the axes.
class UnitKernel : public Kernel {
 public:
  UnitKernel(Ops& ops, int64_t n, UnitInput unit) : ops_(ops), n_(n), unit_(std::move(unit)) {}
  void Forward(const ForwardCall& call) override {
    unit_.Forward(call.inputs[0]);
    ops_.Affine(n_, 1, 0, unit_.made(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    ops_.Affine(n_, 1, 0, call.d_output, unit_.d_made());
    unit_.Backward(call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const int64_t n_;
  UnitInput unit_;
};

enum class Along { kSum, kMean, kAny, kAll, kMax, kMin, kVariance, kStd, kNorm, kNorm1, kLogSum };

struct NamedAlong {
  std::string_view class_name;
  Along along;
};
constexpr NamedAlong kAlong[] = {
    {"Sum", Along::kSum},          {"Mean", Along::kMean}, {"Average", Along::kMean},
    {"Any", Along::kAny},          {"All", Along::kAll},   {"Max", Along::kMax},
    {"Amax", Along::kMax},         {"Min", Along::kMin},   {"Amin", Along::kMin},
    {"Var", Along::kVariance},     {"Std", Along::kStd},   {"Norm", Along::kNorm},
    {"Logsumexp", Along::kLogSum},
};

Along AlongOf(const std::string& class_name) {
  for (const NamedAlong& known : kAlong) {
    if (known.class_name == class_name) return known.along;
  }
  return Along::kSum;
}

// Reduces along the axes given in the file; at least one is required.
class AlongAxes : public Layer {
 public:
  explicit AlongAxes(LayerConfig& config) : Layer(config) {
    const nlohmann::json* axis = config.Value("axis");
    if (axis == nullptr) {
      config.Fail("axis", "must be given: the batch stays");
      return;
    }
    axes_ = AxesOf(*axis);
    if (axes_.empty()) config.Fail("axis", "must be an axis, or a list of them");
  }

 protected:
  absl::StatusOr<std::vector<bool>> Reduced(const Shape& input) const {
    std::vector<bool> reduced(input.size(), false);
    for (const int64_t given : axes_) {
      ASSIGN_OR_RETURN(const size_t axis, AxisOf(input, given));
      reduced[axis] = true;
    }
    return reduced;
  }
  static Shape Kept(const Shape& input, const std::vector<bool>& reduced) {
    Shape kept = input;
    for (size_t i = 0; i < input.size(); ++i) kept[i] = reduced[i] ? 1 : input[i];
    return kept;
  }

  std::vector<int64_t> axes_;
};

class ReduceLayer : public AlongAxes {
 public:
  explicit ReduceLayer(LayerConfig& config)
      : AlongAxes(config),
        along_(AlongOf(config.class_name())),
        keep_(config.Flag("keepdims", false)) {
    if (along_ != Along::kNorm) return;
    const nlohmann::json* order = config.Value("ord");
    const bool vector = axes_.size() == 1;
    if (order == nullptr || *order == "euclidean") return;
    if ((vector && *order == 2) || (axes_.size() == 2 && *order == "fro")) return;
    if (vector && *order == 1) {
      along_ = Along::kNorm1;
    } else {
      config.Fail("ord", "must be null, 1 or 2 along one axis, or \"fro\" along two");
    }
  }

  bool differentiable() const override { return along_ != Along::kAny && along_ != Along::kAll; }
  std::optional<Activation> activation_after() const override {
    if (along_ != Along::kStd && along_ != Along::kNorm) return std::nullopt;
    return Activation{K::kPower, 1, 0.5f};
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const std::vector<bool> reduced, Reduced(inputs[0]));
    Shape output;
    for (size_t i = 0; i < reduced.size(); ++i) {
      if (!reduced[i]) output.push_back(inputs[0][i]);
      if (reduced[i] && keep_) output.push_back(1);
    }
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape& in = inputs[0];
    ASSIGN_OR_RETURN(const std::vector<bool> reduced, Reduced(in));
    Reduction r(batch, in, Kept(in, reduced));
    const bool plain = along_ == Along::kSum || along_ == Along::kMean;
    DeviceArray wide, narrow;
    if (!plain) {
      ASSIGN_OR_RETURN(wide, ops.Allocate(r.n));
    }
    switch (along_) {
      case Along::kSum:
      case Along::kMean: {
        const float scale = along_ == Along::kMean ? 1.f / static_cast<float>(r.count) : 1.f;
        return std::make_unique<SumKernel>(ops, std::move(r), Activation{}, scale, nullptr);
      }
      case Along::kNorm:
      case Along::kNorm1: {
        const Activation before =
            along_ == Along::kNorm ? Activation{K::kPower, 1, 2} : Activation{K::kAbs};
        return std::make_unique<SumKernel>(ops, std::move(r), before, 1.f, std::move(wide));
      }
      case Along::kAny:
      case Along::kAll: {
        const int64_t least = along_ == Along::kAll ? r.count : 1;
        return std::make_unique<CountKernel>(ops, std::move(r), least, std::move(wide));
      }
      default:
        break;
    }
    ASSIGN_OR_RETURN(narrow, ops.Allocate(r.sums));
    if (along_ == Along::kVariance || along_ == Along::kStd) {
      return std::make_unique<VarianceKernel>(ops, std::move(r), std::move(wide),
                                              std::move(narrow));
    }
    ASSIGN_OR_RETURN(Largest largest, Largest::Make(ops, batch, in, reduced));
    if (along_ == Along::kLogSum) {
      return std::make_unique<LogSumExpKernel>(ops, std::move(r), std::move(largest),
                                               std::move(wide), std::move(narrow));
    }
    return std::make_unique<ExtremeKernel>(ops, std::move(r), std::move(largest),
                                           along_ == Along::kMin, std::move(wide),
                                           std::move(narrow));
  }

 private:
  Along along_;
  const bool keep_;
};

// normalize, and TensorFlow's l2_normalize: unit length along axes.
class NormalizeLayer : public AlongAxes {
 public:
  explicit NormalizeLayer(LayerConfig& config) : AlongAxes(config) {
    const double order = config.Number("order", 2);
    order_ = order == 1 ? 1 : 2;
    if (order != order_) config.Fail("order", "must be 1 or 2");
    if (order_ == 1 && axes_.size() != 1) config.Fail("axis", "must be one, of order 1");
    // TensorFlow's epsilon bounds the squared length.
    const double epsilon = config.Number("epsilon", config.keras2() ? 1e-12 : 1e-7);
    least_ = static_cast<float>(config.keras2() || order_ == 1 ? epsilon : epsilon * epsilon);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(Reduced(inputs[0]).status());
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const std::vector<bool> reduced, Reduced(inputs[0]));
    ASSIGN_OR_RETURN(UnitInput unit, UnitInput::Make(ops, batch, inputs[0],
                                                     Kept(inputs[0], reduced), least_, order_));
    return std::make_unique<UnitKernel>(ops, batch * Elements(inputs[0]), std::move(unit));
  }

 private:
  float least_ = 0;
  int order_ = 2;
};

}  // namespace

std::unique_ptr<Layer> MakeReduce(LayerConfig& config) {
  return std::make_unique<ReduceLayer>(config);
}
std::unique_ptr<Layer> MakeNormalize(LayerConfig& config) {
  return std::make_unique<NormalizeLayer>(config);
}

}  // namespace paracord
