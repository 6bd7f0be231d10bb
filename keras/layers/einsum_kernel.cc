#include "keras/layers/einsum_kernel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// Walks from a tensor with axes `from` into a tensor with axes `to`.
Walk WalkOf(const Equation& e, const std::string& from, const std::string& to) {
  const std::vector<int64_t> steps = RowMajor(e.ShapeOf(from));
  Walk walk{e.ShapeOf(to), {}, {}, RowMajor(e.ShapeOf(to))};
  for (const char label : to) walk.a.push_back(steps[from.find(label)]);
  return Shorten(std::move(walk));
}

// A tensor in the equation's order of axes, with a copy in the product's order if the orders
// differ.
struct Ordered {
  Walk walk;
  DeviceArray memory, gradient;

  absl::Status Prepare(Ops& ops, const Equation& e, const std::string& from,
                       const std::string& to) {
    if (from == to) return absl::OkStatus();
    walk = WalkOf(e, from, to);
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
  // The place to compute a result; Out copies the result to its destination.
  float* Place(float* x, const DeviceArray& at) const { return moved() ? at.get() : x; }
  void Out(Ops& ops, const DeviceArray& from, float* x) const {
    if (moved()) ops.Copy({walk.dims, walk.y, {}, walk.a}, false, from.get(), x);
  }
};

class EinsumKernel : public Kernel {
 public:
  EinsumKernel(Ops& ops, Equation equation, bool second, Walk bias, int64_t bias_elements)
      : ops_(ops),
        e_(std::move(equation)),
        second_(second),
        bias_(std::move(bias)),
        bias_elements_(bias_elements) {}

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
    const float* w = w_.In(ops_, second_ ? call.inputs[1].float32 : call.parameters[0], w_.memory);
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
    const float* x = x_.moved() ? x_.memory.get() : call.inputs[0].float32;
    const float* own = second_ ? call.inputs[1].float32 : call.parameters[0];
    const float* w = w_.moved() ? w_.memory.get() : own;
    if (float* d = second_ ? call.d_inputs[1].float32 : call.d_parameters[0]) {
      to_kernel_->Run(x, dy, nullptr, w_.Place(d, w_.gradient));
      w_.Out(ops_, w_.gradient, d);
    }
    if (float* d = call.d_inputs[0]) {
      to_input_->Run(dy, w, nullptr, x_.Place(d, x_.gradient));
      x_.Out(ops_, x_.gradient, d);
    }
  }

 private:
  Ops& ops_;
  const Equation e_;
  const bool second_;
  const Walk bias_;
  const int64_t bias_elements_;
  Ordered x_, w_, y_;
  std::unique_ptr<Matmul> forward_, to_kernel_, to_input_;
};

}  // namespace

std::string Equation::Pick(const std::string& of, const std::string& a, bool in_a,
                           const std::string& b, bool in_b) {
  std::string picked;
  for (const char label : of) {
    if (HasLabel(a, label) == in_a && HasLabel(b, label) == in_b) picked.push_back(label);
  }
  return picked;
}

Shape Equation::ShapeOf(const std::string& labels) const {
  Shape shape;
  for (const char label : labels) shape.push_back(sizes.at(label));
  return shape;
}

absl::Status Equation::Check() const {
  const auto wrong = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  for (const char label : input) {
    if (!HasLabel(kernel, label) && !HasLabel(output, label))
      return wrong("sums over an axis alone");
  }
  for (const std::string* labels : {&kernel, &output}) {
    for (const char label : *labels) {
      if (!sizes.contains(label)) return wrong("leaves a size open");
    }
  }
  for (const char label : kernel) {
    if (!HasLabel(input, label) && !HasLabel(output, label)) return wrong("has a lone axis");
  }
  for (const char label : output) {
    if (!HasLabel(input, label) && !HasLabel(kernel, label)) return wrong("has a lone axis");
  }
  for (const std::string* labels : {&kernel, &output}) {
    RETURN_IF_ERROR(CheckElements(ShapeOf(*labels)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeEinsumKernel(Ops& ops, Equation equation, bool second,
                                                         Walk bias, int64_t bias_elements) {
  auto kernel = std::make_unique<EinsumKernel>(ops, std::move(equation), second, std::move(bias),
                                               bias_elements);
  RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace paracord
