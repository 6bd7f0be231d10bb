// The operation einsum(subscripts, x, y, ...), with the batch as first axis of operands and result.
// First sums an operand's private axes and takes repeated axes along the diagonal; then multiplies
// the operands one after another, each product as a matmul.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "keras/layers/einsum_kernel.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

constexpr size_t kOperandsMax = 16;
constexpr size_t kElidedMax = 10;  // most axes of an ellipsis, labelled by digits

// A term of the subscripts, such as "b...i".
struct Term {
  std::string front, back;  // the letters before and after the ellipsis
  bool elides = false;

  size_t letters() const { return front.size() + back.size(); }
};

// An operand before and after the summing of its private axes.
struct Entry {
  std::string given;  // a label for each axis
  std::string kept;   // each label once, without axes summed at once

  bool sums() const {
    return std::any_of(given.begin(), given.end(),
                       [&](char label) { return !HasLabel(kept, label); });
  }
  bool repeats() const {
    for (size_t i = 0; i < given.size(); ++i) {
      if (given.find(given[i], i + 1) != std::string::npos) return true;
    }
    return false;
  }
};

struct Contraction {
  std::vector<Entry> entries;
  std::string output;
  std::map<char, int64_t> sizes;
  std::vector<Equation> products;  // product so far times the next entry
};

// Copies an operand from its `given` to its `kept` axes, and the gradient back.
struct Entrance {
  Walk walk;
  int64_t given = 0, kept = 0;  // elements
  bool sums = false, repeats = false;

  static Entrance Of(const Entry& entry, const Contraction& c) {
    const auto shape = [&c](const std::string& labels) {
      Shape sizes;
      for (const char label : labels) sizes.push_back(c.sizes.at(label));
      return sizes;
    };
    const Shape from = shape(entry.given), to = shape(entry.kept);
    const std::vector<int64_t> in = RowMajor(from), out = RowMajor(to);
    Entrance made{{}, Elements(from), Elements(to), entry.sums(), entry.repeats()};
    std::string seen;
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t before = seen.find(entry.given[i]);
      if (before != std::string::npos) {
        made.walk.a[before] += in[i];
        continue;
      }
      seen.push_back(entry.given[i]);
      made.walk.dims.push_back(from[i]);
      made.walk.a.push_back(in[i]);
      const size_t at = entry.kept.find(entry.given[i]);
      made.walk.y.push_back(at == std::string::npos ? 0 : out[at]);
    }
    made.walk = Shorten(std::move(made.walk));
    return made;
  }
  void Forward(Ops& ops, ConstTensor x, float* y) const {
    if (sums) ops.Fill(kept, 0, y);
    ops.Copy(walk, sums, x, y);
  }
  void Backward(Ops& ops, const float* dy, Tensor dx) const {
    if (repeats) ops.Fill(given, 0, dx);
    ops.Copy({walk.dims, walk.y, {}, walk.a}, false, dy, dx);
  }
};

// The einsum of a single tensor.
class EntranceKernel : public Kernel {
 public:
  EntranceKernel(Ops& ops, Entrance entrance) : ops_(ops), entrance_(std::move(entrance)) {}
  void Forward(const ForwardCall& call) override {
    entrance_.Forward(ops_, call.inputs[0], call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    entrance_.Backward(ops_, call.d_output, call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const Entrance entrance_;
};

// The einsum of two or more.
class ProductsKernel : public Kernel {
 public:
  explicit ProductsKernel(Ops& ops) : ops_(ops) {}
  absl::Status Prepare(const Contraction& c) {
    operands_.resize(c.entries.size());
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (c.entries[i].given == c.entries[i].kept) continue;
      Operand& operand = operands_[i];
      operand.entrance = Entrance::Of(c.entries[i], c);
      ASSIGN_OR_RETURN(operand.memory, ops_.Allocate(operand.entrance.kept));
      ASSIGN_OR_RETURN(operand.gradient, ops_.Allocate(operand.entrance.kept));
    }
    for (const Equation& equation : c.products) {
      ASSIGN_OR_RETURN(products_.emplace_back(),
                       MakeEinsumKernel(ops_, equation, /*second=*/true, {}, 0));
      if (products_.size() == c.products.size()) break;
      ASSIGN_OR_RETURN(partial_.emplace_back(), ops_.Allocate(equation.Count(equation.output)));
      ASSIGN_OR_RETURN(d_partial_.emplace_back(), ops_.Allocate(equation.Count(equation.output)));
    }
    return absl::OkStatus();
  }

  void Forward(const ForwardCall& call) override {
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      if (operand.enters()) operand.entrance.Forward(ops_, call.inputs[i], operand.memory.get());
    }
    for (size_t i = 0; i < products_.size(); ++i) {
      ForwardCall inner = call;
      const ConstTensor inputs[] = {Left(i, call.inputs), In(i + 1, call.inputs)};
      inner.inputs = inputs;
      if (i < partial_.size()) inner.output = partial_[i].get();
      products_[i]->Forward(inner);
    }
  }
  void Backward(const BackwardCall& call) override {
    for (size_t i = products_.size(); i-- > 0;) {
      BackwardCall inner = call;
      const ConstTensor inputs[] = {Left(i, call.inputs), In(i + 1, call.inputs)};
      const Tensor d_inputs[] = {i > 0 ? Tensor(d_partial_[i - 1].get()) : Out(0, call.d_inputs),
                                 Out(i + 1, call.d_inputs)};
      inner.inputs = inputs;
      inner.d_inputs = d_inputs;
      if (i < partial_.size()) inner.d_output = d_partial_[i].get();
      products_[i]->Backward(inner);
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      if (!operand.enters() || call.d_inputs[i] == nullptr) continue;
      operand.entrance.Backward(ops_, operand.gradient.get(), call.d_inputs[i]);
    }
  }

 private:
  struct Operand {
    Entrance entrance;
    DeviceArray memory, gradient;  // null if the operand needs no copy

    bool enters() const { return memory != nullptr; }
  };
  ConstTensor In(size_t operand, std::span<const ConstTensor> inputs) const {
    return operands_[operand].enters() ? operands_[operand].memory.get() : inputs[operand];
  }
  // The left factor of a product: the previous result.
  ConstTensor Left(size_t product, std::span<const ConstTensor> inputs) const {
    return product > 0 ? ConstTensor(partial_[product - 1].get()) : In(0, inputs);
  }
  Tensor Out(size_t operand, std::span<const Tensor> d_inputs) const {
    if (d_inputs[operand] == nullptr || !operands_[operand].enters()) return d_inputs[operand];
    return operands_[operand].gradient.get();
  }

  Ops& ops_;
  std::vector<Operand> operands_;
  std::vector<std::unique_ptr<Kernel>> products_;
  std::vector<DeviceArray> partial_, d_partial_;  // all products except the last
};

class EinsumOperation : public Layer {
 public:
  explicit EinsumOperation(LayerConfig& config) : Layer(config) {
    const nlohmann::json& args = config.TakeArgs();
    const bool tensors = args.is_array() && !args.empty() && args.size() <= kOperandsMax &&
                         std::all_of(args.begin(), args.end(), LayerConfig::IsTensor) &&
                         std::none_of(args.begin(), args.end(), LayerConfig::IsConstant);
    if (!tensors) config.Fail("args", absl::StrCat("must be 1 to ", kOperandsMax, " tensors"));
    const nlohmann::json* text = config.Value("subscripts");
    if (text == nullptr || !text->is_string() || !Parse(text->get<std::string>())) {
      config.Fail("subscripts", "must be of the form \"bij,bjk->bik\"");
    } else if (tensors && terms_.size() != args.size()) {
      config.Fail("subscripts",
                  absl::StrCat("is of ", terms_.size(), " tensors, not of ", args.size()));
    }
  }

  size_t most_inputs() const override { return std::max<size_t>(terms_.size(), 1); }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Contraction c, For(inputs, 1));
    Shape output;
    for (const char label : c.output.substr(1)) output.push_back(c.sizes.at(label));
    return output;
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape& output) const override {
    const auto c = For(inputs, 1);
    if (!c.ok() || c->products.empty()) return Elements(inputs.empty() ? output : inputs[0]);
    int64_t sum = 0;
    for (const Equation& e : c->products) sum += e.Count(e.output) * e.Count(e.summed());
    return sum;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Contraction c, For(inputs, batch));
    if (c.products.empty()) {
      return std::make_unique<EntranceKernel>(ops, Entrance::Of(c.entries[0], c));
    }
    auto kernel = std::make_unique<ProductsKernel>(ops);
    RETURN_IF_ERROR(kernel->Prepare(c));
    return kernel;
  }

 private:
  static bool ParseTerm(const std::string& text, Term& term) {
    const size_t dots = text.find("...");
    term.elides = dots != std::string::npos;
    term.front = text.substr(0, dots);
    term.back = term.elides ? text.substr(dots + 3) : "";
    const std::string letters = term.front + term.back;
    return std::all_of(letters.begin(), letters.end(),
                       [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); });
  }
  bool Parse(const std::string& given) {
    const std::string text = absl::StrReplaceAll(given, {{" ", ""}});
    const size_t arrow = text.find("->");
    const std::vector<std::string> terms = absl::StrSplit(text.substr(0, arrow), ',');
    for (const std::string& each : terms) {
      if (!ParseTerm(each, terms_.emplace_back())) return false;
    }
    return arrow != std::string::npos && ParseTerm(text.substr(arrow + 2), output_);
  }

  // The labels of a term; its ellipsis stands for the last `elided` of `most` axes.
  static std::string Labels(const Term& term, size_t elided, size_t most) {
    std::string labels = term.front;
    for (size_t i = most - elided; i < most; ++i) labels.push_back(static_cast<char>('0' + i));
    return labels + term.back;
  }

  absl::StatusOr<Contraction> For(std::span<const Shape> inputs, int64_t batch) const {
    if (inputs.size() != terms_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("needs ", terms_.size(), " inputs"));
    }
    absl::StatusOr<Contraction> c = Label(inputs, batch);
    absl::Status fits = c.status();
    if (fits.ok()) fits = Multiply(*c);
    if (fits.ok()) return c;
    std::string shapes;
    for (const Shape& shape : inputs) {
      absl::StrAppend(&shapes, shapes.empty() ? "" : " and ", ShapeName(shape));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("key \"subscripts\": ", fits.message(), ", for ", shapes, " (and the batch)"));
  }

  // Gives each axis a label and each label a size.
  absl::StatusOr<Contraction> Label(std::span<const Shape> inputs, int64_t batch) const {
    const auto wrong = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
    size_t most = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t axes = inputs[i].size() + 1;
      const bool fits =
          terms_[i].elides ? terms_[i].letters() <= axes : terms_[i].letters() == axes;
      if (!fits) return wrong("names other axes");
      most = std::max(most, axes - terms_[i].letters());
    }
    if (most > kElidedMax) return wrong("elides too many axes");
    if (most > 0 && !output_.elides) return wrong("has to have ... in the result, too");
    Contraction c;
    c.output = Labels(output_, most, most);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape all = WithBatch(batch, inputs[i]);
      Entry& entry = c.entries.emplace_back();
      entry.given = Labels(terms_[i], all.size() - terms_[i].letters(), most);
      for (size_t axis = 0; axis < all.size(); ++axis) {
        const int64_t size = c.sizes.emplace(entry.given[axis], all[axis]).first->second;
        if (size != all[axis]) return wrong("has two sizes for an axis");
      }
    }
    const auto in_front = [&c](const std::string& labels) {
      return !labels.empty() && labels[0] == c.output[0] &&
             std::count(labels.begin(), labels.end(), labels[0]) == 1;
    };
    bool good = in_front(c.output);
    for (const Entry& entry : c.entries) good = good && in_front(entry.given);
    if (!good) return wrong("must leave the batch in front");
    for (const char label : c.output) {
      if (!c.sizes.contains(label)) return wrong("has an axis of the result that no input has");
      if (std::count(c.output.begin(), c.output.end(), label) > 1) {
        return wrong("has an axis of the result twice");
      }
    }
    return c;
  }

  // Determines each entry's kept labels, and the products.
  static absl::Status Multiply(Contraction& c) {
    const auto wanted = [&c](char label, size_t from) {
      return HasLabel(c.output, label) ||
             std::any_of(c.entries.begin() + static_cast<std::ptrdiff_t>(from), c.entries.end(),
                         [label](const Entry& e) { return HasLabel(e.given, label); });
    };
    if (c.entries.size() == 1) {
      c.entries[0].kept = c.output;
      return absl::OkStatus();
    }
    for (size_t i = 0; i < c.entries.size(); ++i) {
      Entry& entry = c.entries[i];
      for (const char label : entry.given) {
        const bool elsewhere =
            wanted(label, i + 1) ||
            std::any_of(c.entries.begin(), c.entries.begin() + static_cast<std::ptrdiff_t>(i),
                        [label](const Entry& e) { return HasLabel(e.given, label); });
        if (elsewhere && !HasLabel(entry.kept, label)) entry.kept.push_back(label);
      }
    }
    std::string left = c.entries[0].kept;
    for (size_t i = 1; i < c.entries.size(); ++i) {
      Equation e{left, c.entries[i].kept, "", c.sizes};
      for (const char label : e.input + e.kernel) {
        if (wanted(label, i + 1) && !HasLabel(e.output, label)) e.output.push_back(label);
      }
      // In the order of the matmul's result, to avoid a copy.
      e.output = i + 1 == c.entries.size() ? c.output : e.shared() + e.rows() + e.columns();
      RETURN_IF_ERROR(e.Check());
      left = e.output;
      c.products.push_back(std::move(e));
    }
    return absl::OkStatus();
  }

  std::vector<Term> terms_;
  Term output_;
};

}  // namespace

std::unique_ptr<Layer> MakeEinsumOperation(LayerConfig& config) {
  return std::make_unique<EinsumOperation>(config);
}

}  // namespace paracord
