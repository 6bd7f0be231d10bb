// Products of two tensors along axes: Dot, and the operation matmul.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/unit_input.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// Computes c = a b for each example, where a and b are matrices, perhaps transposed.
struct Product {
  int64_t m = 0, k = 0, n = 0;
  bool transpose_a = false, transpose_b = false;
  Shape before;        // axes over an example's matrices, after broadcasting
  bool one_b = false;  // all share a single b: their rows form one matrix
};

class ProductKernel : public Kernel {
 public:
  struct Parts {
    std::unique_ptr<Matmul> forward, a, b;
  };
  ProductKernel(const Product& p, Parts parts) : p_(p), parts_(std::move(parts)) {}

  void Forward(const ForwardCall& call) override {
    parts_.forward->Run(call.inputs[0], call.inputs[1], nullptr, call.output);
  }
  void Backward(const BackwardCall& call) override {
    const float *a = call.inputs[0], *b = call.inputs[1], *dc = call.d_output;
    if (float* da = call.d_inputs[0]) {
      parts_.a->Run(p_.transpose_a ? b : dc, p_.transpose_a ? dc : b, nullptr, da);
    }
    if (float* db = call.d_inputs[1]) {
      parts_.b->Run(p_.transpose_b ? dc : a, p_.transpose_b ? a : dc, nullptr, db);
    }
  }

 private:
  const Product p_;
  const Parts parts_;
};

// The product of two vectors: a sum of products, instead of a product of single-row matrices.
class VectorProductKernel : public Kernel {
 public:
  VectorProductKernel(Ops& ops, int64_t batch, int64_t k, DeviceArray scratch)
      : ops_(ops), batch_(batch), k_(k), scratch_(std::move(scratch)) {}
  void Forward(const ForwardCall& call) override {
    ops_.Binary(BinaryKind::kMultiply, {{batch_ * k_}, {1}, {1}, {1}}, call.inputs[0],
                call.inputs[1], scratch_.get());
    ops_.Fill(batch_, 0, call.output);
    ops_.Copy({{batch_, k_}, {k_, 1}, {}, {1, 0}}, true, scratch_.get(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    const Walk walk{{batch_, k_}, {1, 0}, {k_, 1}, {k_, 1}};
    for (size_t i = 0; i < 2; ++i) {
      if (call.d_inputs[i] == nullptr) continue;
      ops_.Binary(BinaryKind::kMultiply, walk, call.d_output, call.inputs[1 - i], call.d_inputs[i]);
    }
  }

 private:
  Ops& ops_;
  const int64_t batch_, k_;
  const DeviceArray scratch_;
};

// An input with fewer matrices than the product, each repeated.
class RepeatedInput {
 public:
  static absl::StatusOr<RepeatedInput> Make(Ops& ops, int64_t batch, const Shape& shape,
                                            const Shape& wide) {
    RepeatedInput made;
    made.ops_ = &ops;
    made.n_ = batch * Elements(shape);
    const Shape dims = WithBatch(batch, wide);
    made.walk_ = Shorten({dims, BroadcastSteps(batch, shape, wide), {}, RowMajor(dims)});
    ASSIGN_OR_RETURN(made.x_, ops.Allocate(Elements(dims)));
    ASSIGN_OR_RETURN(made.d_, ops.Allocate(Elements(dims)));
    return made;
  }
  void Forward(const float* x) { ops_->Copy(walk_, false, x, x_.get()); }
  const float* made() const { return x_.get(); }
  float* d_made() const { return d_.get(); }
  void Backward(float* dx) {
    ops_->Fill(n_, 0, dx);
    ops_->Copy({walk_.dims, walk_.y, {}, walk_.a}, true, d_.get(), dx);
  }

 private:
  Ops* ops_ = nullptr;
  int64_t n_ = 0;
  Walk walk_;
  DeviceArray x_, d_;
};

// A product of transformed inputs; nullopt means an untransformed input.
template <class Input>
class ProductOfMadeKernel : public Kernel {
 public:
  ProductOfMadeKernel(std::unique_ptr<Kernel> product, std::optional<Input> a,
                      std::optional<Input> b)
      : product_(std::move(product)), made_{std::move(a), std::move(b)} {}
  void Forward(const ForwardCall& call) override {
    for (size_t i = 0; i < 2; ++i) {
      if (made_[i]) made_[i]->Forward(call.inputs[i]);
      x_[i] = made_[i] ? ConstTensor(made_[i]->made()) : call.inputs[i];
    }
    ForwardCall inner = call;
    inner.inputs = x_;
    product_->Forward(inner);
  }
  void Backward(const BackwardCall& call) override {
    for (size_t i = 0; i < 2; ++i) {
      const bool made = call.d_inputs[i] != nullptr && made_[i];
      d_[i] = made ? Tensor(made_[i]->d_made()) : call.d_inputs[i];
    }
    BackwardCall inner = call;
    inner.inputs = x_;
    inner.d_inputs = d_;
    product_->Backward(inner);
    for (size_t i = 0; i < 2; ++i) {
      if (d_[i] != nullptr && made_[i]) made_[i]->Backward(call.d_inputs[i]);
    }
  }

 private:
  const std::unique_ptr<Kernel> product_;
  std::optional<Input> made_[2];
  ConstTensor x_[2];
  Tensor d_[2];
};

class ProductLayer : public Layer {
 public:
  // `axes`, counting the batch, are summed over; nullopt multiplies matrices: the last axis of a
  // with the second last of b. With `unit`, first scales the inputs to unit length along the axes.
  ProductLayer(LayerConfig& config, std::optional<std::pair<int64_t, int64_t>> axes, bool unit)
      : Layer(config), axes_(axes), unit_(unit), keras2_(config.keras2()) {
    if (axes_.has_value()) return;
    if (config.keras2()) {
      transpose_a_ = config.Flag("transpose_a", false);
      transpose_b_ = config.Flag("transpose_b", false);
    }
    for (const nlohmann::json& arg : config.TakeArgs()) {
      if (!LayerConfig::IsTensor(arg)) config.Fail("args", "must be two tensors");
      one_constant_ = one_constant_ || LayerConfig::IsConstant(arg);
    }
  }

  size_t most_inputs() const override { return 2; }
  // In the operation, a constant is a matrix for all examples, or a vector with the axes of x.
  absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                      size_t rank) const override {
    if (axes_.has_value()) return Layer::ConstantShape(input, constant, rank);
    const bool fits = rank > 1 || (input == 1 && constant.size() == 2 && !transpose_a_);
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("cannot multiply a constant of shape ",
                                                     ShapeName(constant),
                                                     " and the vectors of a batch"));
    }
    return rank > 1 && constant.size() > rank ? ShapeOfOne(constant) : constant;
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs.size() != 2) return absl::InvalidArgumentError("needs two inputs");
    for (const Shape& input : inputs) {
      if (axes_.has_value() || one_constant_ || input.size() > 1) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "needs matrices, not examples of ", ShapeName(input), " with the batch as their rows"));
    }
    ASSIGN_OR_RETURN(const Product p, ProductOf(inputs));
    Shape output = p.before;
    if (Rows(inputs[0]) > 1) output.push_back(p.m);
    if (Rows(inputs[1]) > 1) output.push_back(p.n);
    if (output.empty()) output.push_back(1);
    return output;
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    const auto p = ProductOf(inputs);
    return p.ok() ? Elements(output) * p->k : 0;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Product p, ProductOf(inputs));
    ASSIGN_OR_RETURN(auto product, MakeProduct(ops, batch, inputs, p));
    if (!unit_) return Repeating(ops, batch, inputs, p, std::move(product));
    const float least = keras2_ ? 1e-12f : 1e-14f;  // lower bound of the squared length
    Shape kept_a = inputs[0], kept_b = inputs[1];
    kept_a[p.transpose_a ? 0 : kept_a.size() - 1] = 1;
    kept_b[p.transpose_b ? 1 : 0] = 1;
    ASSIGN_OR_RETURN(UnitInput a, UnitInput::Make(ops, batch, inputs[0], kept_a, least));
    ASSIGN_OR_RETURN(UnitInput b, UnitInput::Make(ops, batch, inputs[1], kept_b, least));
    return std::make_unique<ProductOfMadeKernel<UnitInput>>(std::move(product), std::move(a),
                                                            std::move(b));
  }

 private:
  static absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(Ops& ops, int64_t batch,
                                                             std::span<const Shape> inputs,
                                                             const Product& p) {
    if (inputs[0].size() == 1 && inputs[1].size() == 1) {
      ASSIGN_OR_RETURN(auto scratch, ops.Allocate(batch * p.k));
      return std::make_unique<VectorProductKernel>(ops, batch, p.k, std::move(scratch));
    }
    const int64_t matrices = Elements(p.before), rows = p.one_b ? matrices * p.m : p.m;
    const auto make = [&](int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
      MatmulShape shape{.m = m, .k = k, .n = n, .transpose_a = ta, .transpose_b = tb};
      shape.batch = p.one_b ? batch : batch * matrices;
      return ops.MakeMatmul(shape);
    };
    ProductKernel::Parts parts;
    ASSIGN_OR_RETURN(parts.forward, make(rows, p.k, p.n, p.transpose_a, p.transpose_b));
    // da = dc b', or da = b dc' if a is transposed; db likewise.
    if (p.transpose_a) {
      ASSIGN_OR_RETURN(parts.a, make(p.k, p.n, rows, p.transpose_b, true));
    } else {
      ASSIGN_OR_RETURN(parts.a, make(rows, p.n, p.k, false, !p.transpose_b));
    }
    if (p.transpose_b) {
      ASSIGN_OR_RETURN(parts.b, make(p.n, rows, p.k, true, p.transpose_a));
    } else {
      ASSIGN_OR_RETURN(parts.b, make(p.k, rows, p.n, !p.transpose_a, false));
    }
    return std::make_unique<ProductKernel>(p, std::move(parts));
  }
  static size_t Rows(const Shape& shape) { return shape.size(); }

  static absl::StatusOr<std::unique_ptr<Kernel>> Repeating(Ops& ops, int64_t batch,
                                                           std::span<const Shape> inputs,
                                                           const Product& p,
                                                           std::unique_ptr<Kernel> product) {
    std::optional<RepeatedInput> repeated[2];
    for (size_t i = 0; i < (p.one_b ? 1 : 2); ++i) {
      Shape wide = p.before;
      wide.insert(wide.end(), inputs[i].end() - Matrix(inputs[i]), inputs[i].end());
      if (Elements(wide) == Elements(inputs[i])) continue;
      ASSIGN_OR_RETURN(repeated[i], RepeatedInput::Make(ops, batch, inputs[i], wide));
    }
    if (!repeated[0].has_value() && !repeated[1].has_value()) return product;
    return std::make_unique<ProductOfMadeKernel<RepeatedInput>>(
        std::move(product), std::move(repeated[0]), std::move(repeated[1]));
  }
  // The number of axes of a matrix (2) or a vector (1).
  static std::ptrdiff_t Matrix(const Shape& shape) {
    return std::min<std::ptrdiff_t>(2, std::ssize(shape));
  }

  // In the operation: moves the axes before the matrices from a and b into `p`.
  void TakeMatrices(Shape& a, Shape& b, Product& p) const {
    if (std::max(a.size(), b.size()) < 3) return;
    // Aligned at the last axis, one operand's batch would meet another axis of the other.
    if (!one_constant_ && a.size() != b.size()) return;
    p.one_b = one_constant_ && b.size() < 3 && !transpose_a_;
    Shape before(a.begin(), a.end() - Matrix(a)), other(b.begin(), b.end() - Matrix(b));
    const size_t axes = std::max(before.size(), other.size());
    for (Shape* less : {&before, &other}) less->insert(less->begin(), axes - less->size(), 1);
    for (size_t i = 0; i < axes; ++i) {
      if (before[i] == 1) before[i] = other[i];
      if (other[i] != 1 && other[i] != before[i]) return;
    }
    a.erase(a.begin(), a.end() - Matrix(a));
    b.erase(b.begin(), b.end() - Matrix(b));
    p.before = before;
  }
  absl::StatusOr<Product> ProductOf(std::span<const Shape> inputs) const {
    Product p;
    Shape a = inputs[0], b = inputs[1];
    const auto bad = absl::InvalidArgumentError(
        absl::StrCat("cannot multiply ", ShapeName(a), " and ", ShapeName(b), " along its axes"));
    if (!axes_.has_value()) TakeMatrices(a, b, p);
    if (a.empty() || b.empty() || a.size() > 2 || b.size() > 2) return bad;
    const auto axis = [](int64_t given, const Shape& shape) {
      return given < 0 ? given + static_cast<int64_t>(shape.size()) + 1 : given;
    };
    if ((transpose_a_ && a.size() == 1) || (transpose_b_ && b.size() == 1)) return bad;
    const auto last = [](const Shape& shape) { return static_cast<int64_t>(shape.size()); };
    const int64_t in_a = axes_ ? axis(axes_->first, a) : transpose_a_ ? 1 : last(a);
    const int64_t in_b = axes_ ? axis(axes_->second, b) : transpose_b_ ? last(b) : 1;
    if (in_a < 1 || in_b < 1 || in_a > static_cast<int64_t>(a.size()) ||
        in_b > static_cast<int64_t>(b.size())) {
      return bad;
    }
    p.k = a[static_cast<size_t>(in_a - 1)];
    if (p.k != b[static_cast<size_t>(in_b - 1)]) return bad;
    p.transpose_a = a.size() == 2 && in_a == 1;
    p.transpose_b = b.size() == 2 && in_b == 2;
    p.m = Elements(a) / p.k;
    p.n = Elements(b) / p.k;
    return p;
  }

  const std::optional<std::pair<int64_t, int64_t>> axes_;
  const bool unit_, keras2_;
  bool transpose_a_ = false, transpose_b_ = false, one_constant_ = false;  // for the operation
};

}  // namespace

std::unique_ptr<Layer> MakeDot(LayerConfig& config) {
  std::pair<int64_t, int64_t> axes{-1, -1};
  const nlohmann::json* value = config.Value("axes");
  if (value != nullptr && value->is_array() && value->size() == 2) {
    const std::vector<int64_t> both = config.Integers("axes");
    if (both.size() == 2) axes = {both[0], both[1]};
  } else {
    const int64_t one = config.AnyInteger("axes", -1);
    axes = {one, one};
  }
  return std::make_unique<ProductLayer>(config, axes, config.Flag("normalize", false));
}

std::unique_ptr<Layer> MakeMatmulOperation(LayerConfig& config) {
  return std::make_unique<ProductLayer>(config, std::nullopt, false);
}

}  // namespace paracord
