// Elementwise operations on a single tensor.
#include <cmath>
#include <limits>

#include "keras/layers/layers.h"

namespace paracord {
namespace {

using K = ActivationKind;

struct NamedUnary {
  std::string_view class_name;
  Activation activation;
};
constexpr NamedUnary kUnary[] = {
    {"Absolute", {K::kAbs}},
    {"Arctan", {K::kArctan}},
    {"Ceil", {K::kCeil}},
    {"Celu", {K::kCelu, 1}},
    {"ConvertToTensor", {K::kLinear}},
    {"Cos", {K::kCos}},
    {"Cosh", {K::kCosh}},
    {"Elu", {K::kElu, 1}},
    {"Erf", {K::kErf}},
    {"Exp", {K::kExponential}},
    {"Expm1", {K::kExpm1}},
    {"Floor", {K::kFloor}},
    {"Glu", {K::kGlu}},
    {"HardShrink", {K::kHardShrink, 0.5f}},
    {"HardSigmoid", {K::kHardSigmoid, 1.f / 6}},
    {"HardSilu", {K::kHardSilu}},
    {"HardTanh", {K::kHardTanh}},
    {"LeakyRelu", {K::kLeakyRelu, 0.2f}},
    {"Log", {K::kLog}},
    {"Log1p", {K::kLog1p}},
    {"LogSigmoid", {K::kLogSigmoid}},
    {"LogSoftmax", {K::kLogSoftmax}},
    {"Negative", {K::kAffine, -1}},
    {"OnesLike", {K::kAffine, 0, 1}},
    {"Reciprocal", {K::kPower, 1, -1}},
    {"Relu", {K::kRelu}},
    {"Relu6", {K::kReluGeneral, 0, 6, 0}},
    {"Round", {K::kRound}},
    {"Rsqrt", {K::kPower, 1, -0.5f}},
    {"Selu", {K::kSelu}},
    {"Sigmoid", {K::kSigmoid}},
    {"Sign", {K::kSign}},
    {"Silu", {K::kSilu}},
    {"Sin", {K::kSin}},
    {"Sinh", {K::kSinh}},
    {"SoftShrink", {K::kSoftShrink, 0.5f}},
    {"Softmax", {K::kSoftmax}},
    {"Softplus", {K::kSoftplus}},
    {"Softsign", {K::kSoftsign}},
    {"SparsePlus", {K::kSparsePlus}},
    {"SparseSigmoid", {K::kSparseSigmoid}},
    {"Sparsemax", {K::kSparsemax}},
    {"Sqrt", {K::kPower, 1, 0.5f}},
    {"Square", {K::kPower, 1, 2}},
    {"Squareplus", {K::kSquareplus, 4}},
    {"Tan", {K::kTan}},
    {"Tanh", {K::kTanh}},
    {"TanhShrink", {K::kTanhShrink}},
    {"Trunc", {K::kTruncate}},
    {"ZerosLike", {K::kAffine, 0, 0}},
};

// Passes x on and stops the gradient.
class StopLayer : public Layer {
 public:
  explicit StopLayer(const LayerConfig& config) : Layer(config) {}
  bool differentiable() const override { return false; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override { return inputs[0]; }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return std::make_unique<StopKernel>(ops, batch * Elements(inputs[0]));
  }

 private:
  class StopKernel : public Kernel {
   public:
    StopKernel(Ops& ops, int64_t n) : ops_(ops), n_(n) {}
    void Forward(const ForwardCall& call) override {
      ops_.Affine(n_, 1, 0, call.inputs[0], call.output);
    }
    void Backward(const BackwardCall&) override {}

   private:
    Ops& ops_;
    const int64_t n_;
  };
};

}  // namespace

std::unique_ptr<Layer> MakeStopGradient(LayerConfig& config) {
  return std::make_unique<StopLayer>(config);
}
std::unique_ptr<Layer> MakeUnary(LayerConfig& config) {
  const std::string& name = config.class_name();
  const bool keras2 = config.keras2();
  if (name == "Cast") {
    // Numbers are float32 here, whatever type Keras casts to. Integer types are truncated, but do
    // not wrap around as narrow types do in Keras.
    const std::string dtype = config.Choice("dtype", "", {"float32", "bool", "int32", "int64"});
    if (dtype == "bool") return MakeActivationLayer(config, {K::kNotEqual, 0});
    return MakeActivationLayer(config, {dtype == "float32" ? K::kLinear : K::kTruncate});
  }
  if (name == "EnsureShape") config.Ignore("shape");  // checked by Keras against the model's shape
  if (name == "LogicalNot") {                         // 1 - (x != 0)
    return MakeActivations(config, {K::kNotEqual, 0}, {K::kAffine, -1, 1});
  }
  if (name == "Log2" || name == "Log10") {
    return MakeLogarithm(config, name == "Log2" ? 2.f : 10.f);
  }
  if (name == "Clip") {
    constexpr double kMost = std::numeric_limits<float>::max();
    const double least = config.Bound(keras2 ? "clip_value_min" : "x_min", -kMost);
    const double most = config.Bound(keras2 ? "clip_value_max" : "x_max", kMost);
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
    if (name == "Elu" || name == "Celu") {
      activation.alpha = static_cast<float>(config.Number("alpha", 1));
    }
    if (name == "HardShrink" || name == "SoftShrink") {
      activation.alpha = static_cast<float>(config.Number("threshold", 0.5));
    }
    if (name == "Squareplus") activation.alpha = static_cast<float>(config.Number("b", 4));
    if (name == "Round" && config.AnyInteger("decimals", 0) != 0) {
      config.Fail("decimals", "must be 0");
    }
    const int64_t axis = config.AnyInteger("axis", -1);
    std::unique_ptr<Layer> layer = MakeActivationLayer(config, activation);
    return axis == -1 ? std::move(layer) : MakeAlongAxis(config, std::move(layer), axis);
  }
  return MakeIdentity(config);
}

}  // namespace paracord
