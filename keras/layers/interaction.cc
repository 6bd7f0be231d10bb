// DotInteraction and FeatureCross of Keras-RS, the feature combinations of DLRM and DCN v2.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

struct DotPlan {
  int64_t batch = 0, features = 0, width = 0;
  bool diagonal = false;  // products of a feature with itself count
  bool whole = false;     // the output has all products, with zeros above the diagonal
  int64_t InRow(int64_t row) const { return row + (diagonal ? 1 : 0); }
  int64_t outputs() const {
    if (whole) return features * features;
    return features * (features + (diagonal ? 1 : -1)) / 2;
  }
};

class DotInteractionKernel : public Kernel {
 public:
  struct Parts {
    std::unique_ptr<Matmul> products, gradient;
    DeviceArray stacked, d_stacked;  // (batch, features, width)
    DeviceArray all, both;           // (batch, features, features)
  };
  DotInteractionKernel(Ops& ops, const DotPlan& plan, Parts parts)
      : ops_(ops), plan_(plan), parts_(std::move(parts)) {}

  void Forward(const ForwardCall& call) override {
    Stack(call.inputs);
    parts_.products->Run(parts_.stacked.get(), parts_.stacked.get(), nullptr, parts_.all.get());
    if (plan_.whole) ops_.Fill(plan_.batch * plan_.outputs(), 0, call.output);
    EachRow([&](const Walk& walk, int64_t of_all, int64_t of_output) {
      ops_.Copy(walk, false, parts_.all.get() + of_all, call.output + of_output);
    });
  }

  void Backward(const BackwardCall& call) override {
    float* const all = parts_.all.get();
    const int64_t f = plan_.features, squares = f * f;
    ops_.Fill(plan_.batch * squares, 0, all);
    EachRow([&](const Walk& walk, int64_t of_all, int64_t of_output) {
      ops_.Copy({walk.dims, walk.y, {}, walk.a}, false, call.d_output + of_output, all + of_all);
    });
    // Both factors of a product have a gradient.
    ops_.Binary(BinaryKind::kAdd,
                {{plan_.batch, f, f}, {squares, f, 1}, {squares, 1, f}, {squares, f, 1}}, all, all,
                parts_.both.get());
    Stack(call.inputs);
    parts_.gradient->Run(parts_.both.get(), parts_.stacked.get(), nullptr, parts_.d_stacked.get());
    for (int64_t i = 0; i < f; ++i) {
      float* const d = call.d_inputs[static_cast<size_t>(i)];
      if (d == nullptr) continue;
      const Walk walk = Placing();
      ops_.Copy({walk.dims, walk.y, {}, walk.a}, false, parts_.d_stacked.get() + i * plan_.width,
                d);
    }
  }

 private:
  Walk Placing() const {
    return {{plan_.batch, plan_.width}, {plan_.width, 1}, {}, {plan_.features * plan_.width, 1}};
  }
  void Stack(std::span<const ConstTensor> inputs) {
    for (int64_t i = 0; i < plan_.features; ++i) {
      ops_.Copy(Placing(), false, inputs[static_cast<size_t>(i)],
                parts_.stacked.get() + i * plan_.width);
    }
  }
  // Calls `copy` for the part of each row of products kept in the output.
  template <class CopyRow>
  void EachRow(const CopyRow& copy) {
    const int64_t squares = plan_.features * plan_.features;
    int64_t to = 0;
    for (int64_t row = 0; row < plan_.features; ++row) {
      const int64_t count = plan_.InRow(row);
      const Walk walk{{plan_.batch, count}, {squares, 1}, {}, {plan_.outputs(), 1}};
      const int64_t from = row * plan_.features;
      if (count > 0) copy(walk, from, plan_.whole ? from : to);
      to += count;
    }
  }

  Ops& ops_;
  const DotPlan plan_;
  const Parts parts_;
};

class DotInteractionLayer : public Layer {
 public:
  explicit DotInteractionLayer(LayerConfig& config)
      : Layer(config),
        diagonal_(config.Flag("self_interaction", false)),
        whole_(config.Flag("skip_gather", false)) {}

  size_t most_inputs() const override { return 1024; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    for (const Shape& input : inputs) {
      if (input.size() == 1 && input == inputs[0]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("needs features of one and the same length, not ", ShapeName(inputs[0]),
                       " and ", ShapeName(input)));
    }
    const int64_t outputs = PlanFor(inputs, 1).outputs();
    if (outputs > 0) return Shape{outputs};
    return absl::InvalidArgumentError("needs two features");
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    const auto f = static_cast<int64_t>(inputs.size());
    return f * f * Elements(inputs[0]);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const DotPlan plan = PlanFor(inputs, batch);
    const int64_t f = plan.features, width = plan.width;
    DotInteractionKernel::Parts parts;
    MatmulShape products{.m = f, .k = width, .n = f, .transpose_b = true};
    MatmulShape gradient{.m = f, .k = f, .n = width};
    products.batch = gradient.batch = batch;
    ASSIGN_OR_RETURN(parts.products, ops.MakeMatmul(products));
    ASSIGN_OR_RETURN(parts.gradient, ops.MakeMatmul(gradient));
    for (DeviceArray* array : {&parts.stacked, &parts.d_stacked}) {
      ASSIGN_OR_RETURN(*array, ops.Allocate(batch * f * width));
    }
    for (DeviceArray* array : {&parts.all, &parts.both}) {
      ASSIGN_OR_RETURN(*array, ops.Allocate(batch * f * f));
    }
    return std::make_unique<DotInteractionKernel>(ops, plan, std::move(parts));
  }

 private:
  DotPlan PlanFor(std::span<const Shape> inputs, int64_t batch) const {
    return {batch, static_cast<int64_t>(inputs.size()), inputs[0].back(), diagonal_, whole_};
  }
  const bool diagonal_, whole_;
};

struct CrossPlan {
  int64_t rows = 0, width = 0;
  int64_t projection = 0;  // 0: the kernel is square
  bool bias = true;
  Activation activation;
  float diagonal = 0;
  int64_t elements() const { return rows * width; }
  bool acts() const { return activation.kind != ActivationKind::kLinear; }
};

// Computes x0 (activation(x W + b) + diagonal x) + x, where W is the kernel, or the product of two.
// The inputs are x0 and x, or a single tensor for both.
class FeatureCrossKernel : public Kernel {
 public:
  // The products with a kernel.
  struct Product {
    std::unique_ptr<Matmul> forward, input, kernel;
  };
  struct Parts {
    Product down, dense;      // `down` is empty without a projection
    DeviceArray low, d_low;   // (rows, projection)
    DeviceArray made;         // (rows, width): the dense output before its activation
    DeviceArray factor;       // (rows, width): the factor of x0
    DeviceArray acted;        // (rows, width): the dense output
    DeviceArray d_made, d_x;  // (rows, width)
  };
  FeatureCrossKernel(Ops& ops, const CrossPlan& plan, Parts parts)
      : ops_(ops), plan_(plan), parts_(std::move(parts)) {}

  void Forward(const ForwardCall& call) override {
    const ConstTensor x0 = call.inputs[0], x = call.inputs.back();
    const size_t kernel = plan_.projection > 0 ? 1 : 0;
    if (plan_.projection > 0) {
      parts_.down.forward->Run(x, call.Parameter(0), nullptr, parts_.low.get());
    }
    parts_.dense.forward->Run(
        plan_.projection > 0 ? ConstTensor(parts_.low.get()) : x, call.Parameter(kernel),
        plan_.bias ? call.parameters[kernel + 1] : nullptr, parts_.made.get());
    float* const factor = parts_.factor.get();
    ops_.Activate(plan_.activation, plan_.rows, plan_.width, parts_.made.get(), parts_.acted.get());
    ops_.Affine(plan_.elements(), plan_.diagonal, 0, x, factor);
    ops_.Add(plan_.elements(), parts_.acted.get(), factor);
    ops_.Binary(BinaryKind::kMultiply, Same(), x0, factor, call.output);
    ops_.Add(plan_.elements(), x, call.output);
  }

  void Backward(const BackwardCall& call) override {
    const int64_t n = plan_.elements();
    const ConstTensor x0 = call.inputs[0], x = call.inputs.back();
    float* const d_factor = parts_.d_made.get();
    float* const d_x = parts_.d_x.get();
    ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, x0, d_factor);
    ops_.Affine(n, plan_.diagonal, 0, d_factor, d_x);
    ops_.Add(n, call.d_output, d_x);
    if (plan_.acts()) {
      ops_.ActivateBackward(plan_.activation, plan_.rows, plan_.width, parts_.made.get(),
                            parts_.acted.get(), d_factor, d_factor);
    }
    DenseBackward(call, x);
    if (float* d = call.d_inputs[0]) {
      ops_.Binary(BinaryKind::kMultiply, Same(), call.d_output, parts_.factor.get(), d);
      if (call.inputs.size() == 1) ops_.Add(n, d_x, d);
    }
    if (call.inputs.size() > 1 && call.d_inputs[1] != nullptr) {
      ops_.Convert(n, d_x, call.d_inputs[1]);
    }
  }

 private:
  Walk Same() const { return {{plan_.elements()}, {1}, {1}, {1}}; }

  // Adds to d_x the gradient through the kernels, and writes the kernels' gradients.
  void DenseBackward(const BackwardCall& call, ConstTensor x) {
    const size_t kernel = plan_.projection > 0 ? 1 : 0;
    const float* const d = parts_.d_made.get();
    const ConstTensor in = plan_.projection > 0 ? ConstTensor(parts_.low.get()) : x;
    if (float* d_kernel = call.d_parameters[kernel]) {
      parts_.dense.kernel->Run(in, d, nullptr, d_kernel);
    }
    if (plan_.bias && call.d_parameters[kernel + 1] != nullptr) {
      ops_.SumRows(plan_.rows, plan_.width, d, call.d_parameters[kernel + 1]);
    }
    float* const through = parts_.acted.get();  // reused: forward's values are no longer needed
    if (plan_.projection == 0) {
      parts_.dense.input->Run(d, call.Parameter(0), nullptr, through);
    } else {
      parts_.dense.input->Run(d, call.Parameter(1), nullptr, parts_.d_low.get());
      if (float* d_down = call.d_parameters[0]) {
        parts_.down.kernel->Run(x, parts_.d_low.get(), nullptr, d_down);
      }
      parts_.down.input->Run(parts_.d_low.get(), call.Parameter(0), nullptr, through);
    }
    ops_.Add(plan_.elements(), through, parts_.d_x.get());
  }

  Ops& ops_;
  const CrossPlan plan_;
  const Parts parts_;
};

class FeatureCrossLayer : public Layer {
 public:
  explicit FeatureCrossLayer(LayerConfig& config)
      : Layer(config),
        projection_(config.Has("projection_dim") ? config.Integer("projection_dim", 1, 1) : 0),
        bias_(config.Flag("use_bias", true)),
        diagonal_(static_cast<float>(config.Number("diag_scale", 0))),
        activation_(config.ActivationOf("pre_activation")),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    if (diagonal_ < 0) config.Fail("diag_scale", "must not be negative");
    config.Ignore("projection_dim");
    if (activation_.kind == ActivationKind::kGlu) {
      config.Fail("pre_activation", "halves what it is given, so that it cannot be crossed");
    }
  }

  MaskRule mask_rule() const override { return MaskRule::kPass; }
  size_t most_inputs() const override { return 2; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs[0].empty() || inputs.back() != inputs[0]) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot cross ", ShapeName(inputs[0]), " and ", ShapeName(inputs.back())));
    }
    const int64_t width = inputs[0].back(), low = projection_ > 0 ? projection_ : width;
    size_t index = 0;
    if (projection_ > 0) {
      MakeOperand(index);
      RETURN_IF_ERROR(
          Declare(index++, "down_proj_dense/kernel", {width, low}, kernel_initializer_));
    }
    MakeOperand(index);
    RETURN_IF_ERROR(Declare(index++, "dense/kernel", {low, width}, kernel_initializer_));
    if (bias_) RETURN_IF_ERROR(Declare(index, "dense/bias", {width}, bias_initializer_));
    return inputs[0];
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    return Elements(output) * (projection_ > 0 ? 2 * projection_ : inputs[0].back());
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t width = inputs[0].back(), rows = batch * Elements(inputs[0]) / width;
    const CrossPlan plan{rows, width, projection_, bias_, activation_, diagonal_};
    FeatureCrossKernel::Parts parts;
    if (projection_ > 0) {
      ASSIGN_OR_RETURN(parts.down, MakeProduct(ops, rows, width, projection_, false));
      for (DeviceArray* array : {&parts.low, &parts.d_low}) {
        ASSIGN_OR_RETURN(*array, ops.Allocate(rows * projection_));
      }
    }
    const int64_t in = projection_ > 0 ? projection_ : width;
    ASSIGN_OR_RETURN(parts.dense, MakeProduct(ops, rows, in, width, bias_));
    for (DeviceArray* array :
         {&parts.made, &parts.factor, &parts.acted, &parts.d_made, &parts.d_x}) {
      ASSIGN_OR_RETURN(*array, ops.Allocate(rows * width));
    }
    return std::make_unique<FeatureCrossKernel>(ops, plan, std::move(parts));
  }

 private:
  // The products with a kernel (k, n).
  static absl::StatusOr<FeatureCrossKernel::Product> MakeProduct(Ops& ops, int64_t m, int64_t k,
                                                                 int64_t n, bool bias) {
    FeatureCrossKernel::Product product;
    ASSIGN_OR_RETURN(product.forward, ops.MakeMatmul({m, k, n, false, false, bias, false}));
    ASSIGN_OR_RETURN(product.kernel, ops.MakeMatmul({k, m, n, true, false, false, false}));
    ASSIGN_OR_RETURN(product.input, ops.MakeMatmul({m, n, k, false, true, false, false}));
    return product;
  }

  const int64_t projection_;
  const bool bias_;
  const float diagonal_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
};

}  // namespace

std::unique_ptr<Layer> MakeDotInteraction(LayerConfig& config) {
  return std::make_unique<DotInteractionLayer>(config);
}
std::unique_ptr<Layer> MakeFeatureCross(LayerConfig& config) {
  return std::make_unique<FeatureCrossLayer>(config);
}

}  // namespace paracord
