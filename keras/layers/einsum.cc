// EinsumDense: an einsum of the input and a kernel.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/einsum_kernel.h"
#include "keras/layers/initializer_config.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// True if the text consists of distinct letters.
bool AreLabels(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!absl::ascii_isalpha(static_cast<unsigned char>(text[i]))) return false;
    if (text.find(text[i], i + 1) != std::string::npos) return false;
  }
  return true;
}

// A fan of the kernel as in Keras 3: the product of its axes inside the output (`out`), or outside.
int64_t Fan(const Equation& e, bool out) {
  return e.Count(Equation::Pick(e.kernel, e.output, out, e.kernel, true));
}

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
        keras2_ ? kernel_initializer_ : WithFans(kernel_initializer_, Fan(e, false), Fan(e, true));
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
    return MakeEinsumKernel(ops, e, /*second=*/false, std::move(walk), Elements(bias));
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
      if (!AreLabels(labels)) return false;
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
    // Keras inserts the batch, elided axes, and output_shape, in this order.
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
    if (e.output[0] != e.input[0] || HasLabel(e.kernel, e.input[0])) {
      return wrong("must leave the batch in front");
    }
    const absl::Status fits = e.Check();
    if (!fits.ok()) return wrong(fits.message());
    return e;
  }

  // The bias' shape from its first axis on, with 1 for broadcast axes.
  absl::StatusOr<Shape> BiasOf(const Equation& e) const {
    size_t first = e.output.size();
    for (const char label : bias_axes_) {
      if (!HasLabel(output_, label) || label == e.output[0]) {
        return absl::InvalidArgumentError("key \"bias_axes\": must be axes of the output");
      }
      first = std::min(first, e.output.find(label));
    }
    Shape shape;
    for (const char label : e.output.substr(first)) {
      shape.push_back(HasLabel(bias_axes_, label) ? e.sizes.at(label) : 1);
    }
    return shape;
  }

  const bool keras2_;
  const Activation activation_;
  const Initializer kernel_initializer_, bias_initializer_;
  std::string input_, kernel_, output_, bias_axes_;
  bool left_ = false, right_ = false;  // where the equation has an ellipsis
  Shape output_shape_;                 // -1 for open sizes
};

}  // namespace

std::unique_ptr<Layer> MakeEinsumDense(LayerConfig& config) {
  return std::make_unique<EinsumLayer>(config);
}

}  // namespace paracord
