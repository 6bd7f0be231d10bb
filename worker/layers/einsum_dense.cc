// EinsumDense: one product of matrices along the axes that an equation names, between copies that
// put the axes in order where they are not.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/layers/initializer_config.h"
#include "worker/layers/layers.h"
#include "worker/layers/walks.h"

namespace paracord {
namespace {

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// An equation for an input of so many axes, a label an axis; axes that it elides have labels too.
struct Equation {
  std::string input, kernel, output;
  std::map<char, int64_t> sizes;  // that of the batch is of all examples

  // The labels of `of` that the others have or have not.
  static std::string Pick(const std::string& of, const std::string& a, bool in_a,
                          const std::string& b, bool in_b) {
    std::string picked;
    for (const char label : of) {
      if (Has(a, label) == in_a && Has(b, label) == in_b) picked.push_back(label);
    }
    return picked;
  }
  std::string shared() const { return Pick(input, kernel, true, output, true); }
  std::string rows() const { return Pick(input, kernel, false, output, true); }
  std::string summed() const { return Pick(input, kernel, true, output, false); }
  std::string columns() const { return Pick(kernel, input, false, output, true); }

  Shape ShapeOf(const std::string& labels) const {
    Shape shape;
    for (const char label : labels) shape.push_back(sizes.at(label));
    return shape;
  }
  int64_t Count(const std::string& labels) const { return Elements(ShapeOf(labels)); }
  // Of the kernel, as Keras 3 has it: its axes that the output has, or has not.
  int64_t Fan(bool out) const { return Count(Pick(kernel, output, out, kernel, true)); }
  // From a tensor with axes `from` into one with axes `to`.
  Walk WalkOf(const std::string& from, const std::string& to) const {
    const std::vector<int64_t> steps = RowMajor(ShapeOf(from));
    Walk walk{ShapeOf(to), {}, {}, RowMajor(ShapeOf(to))};
    for (const char label : to) walk.a.push_back(steps[from.find(label)]);
    return Shorten(std::move(walk));
  }
};

// A tensor in the order of the equation and, unless that is the same, in that of the product.
struct Ordered {
  Walk walk;
  DeviceArray memory, gradient;

  absl::Status Prepare(Ops& ops, const Equation& e, const std::string& from,
                       const std::string& to) {
    if (from == to) return absl::OkStatus();
    walk = e.WalkOf(from, to);
    ASSIGN_OR_RETURN(memory, ops.Allocate(e.Count(to)));
    ASSIGN_OR_RETURN(gradient, ops.Allocate(e.Count(to)));
    return absl::OkStatus();
  }
  bool moved() const { return memory != nullptr; }
  const float* In(Ops& ops, const float* x, const DeviceArray& into) const {
    if (!moved()) return x;
    ops.Copy(walk, false, x, into.get());
    return into.get();
  }
  // Where to compute what Out then brings to its place.
  float* Place(float* x, const DeviceArray& at) const { return moved() ? at.get() : x; }
  void Out(Ops& ops, const DeviceArray& from, float* x) const {
    if (moved()) ops.Copy({walk.dims, walk.y, {}, walk.a}, false, from.get(), x);
  }
};

class EinsumKernel : public Kernel {
 public:
  // `bias`: from the output to it; without axes if there is none.
  EinsumKernel(Ops& ops, Equation equation, Walk bias)
      : ops_(ops), e_(std::move(equation)), bias_(std::move(bias)) {}

  absl::Status Prepare() {
    const std::string s = e_.shared(), r = e_.rows(), k = e_.summed(), c = e_.columns();
    RETURN_IF_ERROR(x_.Prepare(ops_, e_, e_.input, s + r + k));
    RETURN_IF_ERROR(w_.Prepare(ops_, e_, e_.kernel, s + k + c));
    RETURN_IF_ERROR(y_.Prepare(ops_, e_, e_.output, s + r + c));
    const int64_t rows = e_.Count(r), summed = e_.Count(k), columns = e_.Count(c);
    const auto make = [&](std::unique_ptr<Matmul>& made, MatmulShape shape) -> absl::Status {
      shape.batch = e_.Count(s);
      ASSIGN_OR_RETURN(made, ops_.MakeMatmul(shape));
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(make(forward_, {rows, summed, columns, false, false, false, false}));
    RETURN_IF_ERROR(make(to_kernel_, {summed, rows, columns, true, false, false, false}));
    RETURN_IF_ERROR(make(to_input_, {rows, columns, summed, false, true, false, false}));
    return absl::OkStatus();
  }

  void Forward(const ForwardCall& call) override {
    const float* x = x_.In(ops_, call.inputs[0], x_.memory);
    const float* w = w_.In(ops_, call.parameters[0], w_.memory);
    forward_->Run(x, w, nullptr, y_.Place(call.output, y_.memory));
    y_.Out(ops_, y_.memory, call.output);
    if (bias_.dims.empty()) return;
    ops_.Binary(BinaryKind::kAdd, {bias_.dims, bias_.a, bias_.y, bias_.a}, call.output,
                call.parameters[1], call.output);
  }
  void Backward(const BackwardCall& call) override {
    const float* dy = y_.In(ops_, call.d_output, y_.gradient);
    if (!bias_.dims.empty() && call.d_parameters[1] != nullptr) {
      ops_.Fill(bias_elements_, 0, call.d_parameters[1]);
      ops_.Copy(bias_, true, call.d_output, call.d_parameters[1]);
    }
    const float* x = x_.moved() ? x_.memory.get() : call.inputs[0];
    const float* w = w_.moved() ? w_.memory.get() : call.parameters[0];
    if (float* d = call.d_parameters[0]) {
      to_kernel_->Run(x, dy, nullptr, w_.Place(d, w_.gradient));
      w_.Out(ops_, w_.gradient, d);
    }
    if (float* d = call.d_inputs[0]) {
      to_input_->Run(dy, w, nullptr, x_.Place(d, x_.gradient));
      x_.Out(ops_, x_.gradient, d);
    }
  }
  void SetBias(int64_t elements) { bias_elements_ = elements; }

 private:
  Ops& ops_;
  const Equation e_;
  const Walk bias_;
  int64_t bias_elements_ = 0;
  Ordered x_, w_, y_;
  std::unique_ptr<Matmul> forward_, to_kernel_, to_input_;
};

class EinsumLayer : public Layer {
 public:
  explicit EinsumLayer(LayerConfig& config)
      : Layer(config),
        keras2_(config.keras2()),
        activation_(config.ActivationOf("activation")),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    if (const nlohmann::json* size = config.Value("output_shape")) {
      output_shape_ = size->is_array() ? config.Dims("output_shape")
                                       : Shape{config.Integer("output_shape", 1, 1)};
    }
    const nlohmann::json* axes = config.Value("bias_axes");
    if (axes != nullptr && axes->is_string()) bias_axes_ = axes->get<std::string>();
    if (axes != nullptr && !axes->is_string()) config.Fail("bias_axes", "must be letters");
    const nlohmann::json* equation = config.Value("equation");
    if (equation == nullptr || !equation->is_string() || !Parse(equation->get<std::string>())) {
      config.Fail("equation", "must be of the form \"ab,bc->ac\", or with ... at one end");
    }
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Equation e, For(inputs[0], 1));
    const Initializer kernel =
        keras2_ ? kernel_initializer_ : WithFans(kernel_initializer_, e.Fan(false), e.Fan(true));
    RETURN_IF_ERROR(Declare(0, "kernel", e.ShapeOf(e.kernel), kernel));
    if (!bias_axes_.empty()) {
      ASSIGN_OR_RETURN(const Shape bias, BiasOf(e));
      RETURN_IF_ERROR(Declare(1, "bias", bias, bias_initializer_));
    }
    return e.ShapeOf(e.output.substr(1));
  }
  std::optional<Activation> activation_after() const override { return activation_; }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    const auto e = For(inputs[0], 1);
    return e.ok() ? Elements(output) * e->Count(e->summed()) : 0;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Equation e, For(inputs[0], batch));
    Walk walk;
    Shape bias;
    if (!bias_axes_.empty()) {
      ASSIGN_OR_RETURN(bias, BiasOf(e));
      walk.dims = e.ShapeOf(e.output);
      walk.a = RowMajor(walk.dims);
      const std::vector<int64_t> steps = RowMajor(bias);
      walk.y.assign(walk.dims.size(), 0);
      for (size_t i = 0; i < bias.size(); ++i) {
        if (bias[i] > 1) walk.y[walk.dims.size() - bias.size() + i] = steps[i];
      }
      walk = Shorten(std::move(walk));
    }
    auto kernel = std::make_unique<EinsumKernel>(ops, e, std::move(walk));
    kernel->SetBias(Elements(bias));
    RETURN_IF_ERROR(kernel->Prepare());
    return kernel;
  }

 private:
  bool Parse(std::string text) {
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    const size_t comma = text.find(','), arrow = text.find("->");
    if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) return false;
    input_ = text.substr(0, comma);
    kernel_ = text.substr(comma + 1, arrow - comma - 1);
    output_ = text.substr(arrow + 2);
    left_ = input_.starts_with("...") && output_.starts_with("...");
    right_ = !left_ && input_.ends_with("...") && output_.ends_with("...");
    for (std::string* labels : {&input_, &output_}) {
      if (left_) labels->erase(0, 3);
      if (right_) labels->resize(labels->size() - 3);
    }
    for (const std::string& labels : {input_, kernel_, output_}) {
      for (size_t i = 0; i < labels.size(); ++i) {
        if (!absl::ascii_isalpha(static_cast<unsigned char>(labels[i]))) return false;
        if (labels.find(labels[i], i + 1) != std::string::npos) return false;
      }
    }
    return !input_.empty() && !kernel_.empty() && (left_ || !output_.empty());
  }

  absl::StatusOr<Equation> For(const Shape& input, int64_t batch) const {
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"equation\": ", what, ", for an input of ", ShapeName(input)));
    };
    const Shape all = WithBatch(batch, input);
    const bool elides = left_ || right_;
    if (input_.size() > all.size() || (!elides && input_.size() != all.size())) {
      return wrong("names other axes");
    }
    std::string elided;
    for (size_t i = input_.size(); i < all.size(); ++i) {
      if (elided.size() == 10) return wrong("elides too many axes");
      elided.push_back(static_cast<char>('0' + elided.size()));
    }
    Equation e{left_ ? elided + input_ : input_ + elided,
               kernel_,
               left_ ? elided + output_ : output_ + elided,
               {}};
    for (size_t i = 0; i < all.size(); ++i) e.sizes[e.input[i]] = all[i];
    // As Keras has it: the batch, elided axes, and output_shape in between.
    Shape declared = output_shape_;
    declared.insert(left_ ? declared.begin() : declared.end(),
                    elided.size() - (left_ && !elided.empty() ? 1 : 0), -1);
    declared.insert(declared.begin(), -1);
    if (declared.size() != e.output.size()) return wrong("does not fit key \"output_shape\"");
    for (size_t i = 0; i < declared.size(); ++i) {
      if (declared[i] < 0) continue;
      const int64_t size = e.sizes.emplace(e.output[i], declared[i]).first->second;
      if (size != declared[i]) return wrong("does not fit key \"output_shape\"");
    }
    if (e.output[0] != e.input[0] || Has(e.kernel, e.input[0])) {
      return wrong("must leave the batch in front");
    }
    for (const char label : e.input) {
      if (!Has(e.kernel, label) && !Has(e.output, label)) return wrong("sums over an axis alone");
    }
    for (const std::string* labels : {&e.kernel, &e.output}) {
      for (const char label : *labels) {
        if (!e.sizes.contains(label)) return wrong("leaves a size open");
      }
    }
    for (const char label : e.kernel) {
      if (!Has(e.input, label) && !Has(e.output, label)) return wrong("has a lone axis");
    }
    for (const char label : e.output) {
      if (!Has(e.input, label) && !Has(e.kernel, label)) return wrong("has a lone axis");
    }
    for (const std::string* labels : {&e.kernel, &e.output}) {
      RETURN_IF_ERROR(CheckElements(e.ShapeOf(*labels)));
    }
    return e;
  }

  // From the first of its axes on, 1 where it is broadcast.
  absl::StatusOr<Shape> BiasOf(const Equation& e) const {
    size_t first = e.output.size();
    for (const char label : bias_axes_) {
      if (!Has(output_, label) || label == e.output[0]) {
        return absl::InvalidArgumentError("key \"bias_axes\": must be axes of the output");
      }
      first = std::min(first, e.output.find(label));
    }
    Shape shape;
    for (const char label : e.output.substr(first)) {
      shape.push_back(Has(bias_axes_, label) ? e.sizes.at(label) : 1);
    }
    return shape;
  }

  const bool keras2_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
  std::string input_, kernel_, output_, bias_axes_;
  bool left_ = false, right_ = false;  // where the equation elides axes
  Shape output_shape_;                 // -1 for what it leaves open
};

}  // namespace

std::unique_ptr<Layer> MakeEinsumDense(LayerConfig& config) {
  return std::make_unique<EinsumLayer>(config);
}

}  // namespace paracord
