// Operations on one tensor: element by element, and sums along axes.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/layers/layers.h"
#include "worker/layers/walks.h"

namespace paracord {
namespace {

using K = ActivationKind;

struct NamedUnary {
  std::string_view class_name;
  Activation activation;
};
constexpr NamedUnary kUnary[] = {
    {"Absolute", {K::kAbs}},
    {"ConvertToTensor", {K::kLinear}},
    {"Cos", {K::kCos}},
    {"Elu", {K::kElu, 1}},
    {"Exp", {K::kExponential}},
    {"Expm1", {K::kExpm1}},
    {"LeakyRelu", {K::kLeakyRelu, 0.2f}},
    {"Log", {K::kLog}},
    {"Log1p", {K::kLog1p}},
    {"LogSoftmax", {K::kLogSoftmax}},
    {"Negative", {K::kAffine, -1}},
    {"OnesLike", {K::kAffine, 0, 1}},
    {"Reciprocal", {K::kPower, 1, -1}},
    {"Relu", {K::kRelu}},
    {"Relu6", {K::kReluGeneral, 0, 6, 0}},
    {"Rsqrt", {K::kPower, 1, -0.5f}},
    {"Selu", {K::kSelu}},
    {"Sigmoid", {K::kSigmoid}},
    {"Sign", {K::kSign}},
    {"Silu", {K::kSilu}},
    {"Sin", {K::kSin}},
    {"Softmax", {K::kSoftmax}},
    {"Softplus", {K::kSoftplus}},
    {"Softsign", {K::kSoftsign}},
    {"Sqrt", {K::kPower, 1, 0.5f}},
    {"Square", {K::kPower, 1, 2}},
    {"Tanh", {K::kTanh}},
    {"ZerosLike", {K::kAffine, 0, 0}},
};

// The sum or mean along some axes.
class ReduceLayer : public Layer {
 public:
  explicit ReduceLayer(LayerConfig& config)
      : Layer(config),
        mean_(config.class_name() == "Mean"),
        any_(config.class_name() == "Any"),
        keep_(config.Flag("keepdims", false)) {
    const nlohmann::json* axis = config.Value("axis");
    if (axis == nullptr) {
      config.Fail("axis", "must be given: the batch stays");
      return;
    }
    axes_ = axis->is_array() ? config.Integers("axis")
                             : std::vector<int64_t>{config.AnyInteger("axis", -1)};
  }

  bool differentiable() const override { return !any_; }
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
    Shape kept = in;
    int64_t count = 1;
    for (size_t i = 0; i < in.size(); ++i) {
      if (reduced[i]) count *= in[i];
      if (reduced[i]) kept[i] = 1;
    }
    const Shape all = WithBatch(batch, in);
    Walk walk = Shorten({all, RowMajor(all), {}, BroadcastSteps(batch, kept, in)});
    return std::make_unique<ReduceKernel>(ops, std::move(walk), batch * Elements(kept),
                                          mean_ ? 1.f / static_cast<float>(count) : 1.f, any_);
  }

 private:
  class ReduceKernel : public Kernel {
   public:
    ReduceKernel(Ops& ops, Walk walk, int64_t n, float scale, bool any)
        : ops_(ops), walk_(std::move(walk)), n_(n), scale_(scale), any_(any) {
      back_ = {walk_.dims, walk_.y, {}, walk_.a};
    }
    void Forward(const ForwardCall& call) override {
      ops_.Fill(n_, 0, call.output);
      ops_.Copy(walk_, true, call.inputs[0], call.output);
      if (scale_ != 1) ops_.Affine(n_, scale_, 0, call.output, call.output);
      if (any_) ops_.Activate({ActivationKind::kNotEqual, 0}, 1, n_, call.output, call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] == nullptr) return;
      if (scale_ != 1) ops_.Affine(n_, scale_, 0, call.d_output, call.d_output);
      ops_.Copy(back_, false, call.d_output, call.d_inputs[0]);
    }

   private:
    Ops& ops_;
    const Walk walk_;
    Walk back_;
    const int64_t n_;
    const float scale_;
    const bool any_;
  };

  absl::StatusOr<std::vector<bool>> Reduced(const Shape& input) const {
    std::vector<bool> reduced(input.size(), false);
    const auto rank = static_cast<int64_t>(input.size()) + 1;
    for (const int64_t given : axes_) {
      const int64_t axis = given < 0 ? given + rank : given;
      if (axis < 1 || axis >= rank) {
        return absl::InvalidArgumentError(absl::StrCat("key \"axis\": ", given, " is no axis of ",
                                                       ShapeName(input),
                                                       " (the batch does not count)"));
      }
      reduced[static_cast<size_t>(axis - 1)] = true;
    }
    return reduced;
  }

  const bool mean_, any_, keep_;
  std::vector<int64_t> axes_;
};

}  // namespace

std::unique_ptr<Layer> MakeReduce(LayerConfig& config) {
  return std::make_unique<ReduceLayer>(config);
}

std::unique_ptr<Layer> MakeUnary(LayerConfig& config) {
  const std::string& name = config.class_name();
  const bool keras2 = config.keras2();
  if (name == "Cast") {  // of numbers that are float32 here, whatever they are in Keras
    config.Choice("dtype", "", {"float32"});
    return MakeActivationLayer(config, {K::kLinear});
  }
  if (name == "Clip") {
    constexpr double kMost = std::numeric_limits<float>::max();
    const double least = config.Number(keras2 ? "clip_value_min" : "x_min", -kMost);
    const double most = config.Number(keras2 ? "clip_value_max" : "x_max", kMost);
    return MakeActivationLayer(config,
                               {K::kClip, static_cast<float>(least), static_cast<float>(most), 0});
  }
  if (name == "Gelu") {
    return MakeActivationLayer(config,
                               {config.Flag("approximate", !keras2) ? K::kGeluTanh : K::kGelu});
  }
  for (const NamedUnary& known : kUnary) {
    if (known.class_name != name) continue;
    Activation activation = known.activation;
    if (name == "LeakyRelu") {
      const char* slope = keras2 ? "alpha" : "negative_slope";
      activation.alpha = static_cast<float>(config.Number(slope, 0.2));
    }
    if (name == "Elu") activation.alpha = static_cast<float>(config.Number("alpha", 1));
    if (config.AnyInteger("axis", -1) != -1) config.Fail("axis", "must be -1");
    return MakeActivationLayer(config, activation);
  }
  return MakeIdentity(config);
}

}  // namespace paracord
