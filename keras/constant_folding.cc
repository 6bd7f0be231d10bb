// Folds calls on sizes while the graph is built: their results become numbers in the calls that
// take them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/graph_builder.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

using nlohmann::json;

bool IsSizeOf(const std::string& operation) {
  return operation == "Shape" || operation == "Size" || operation == "Rank";
}

bool HoldsTensor(const json& value) {
  if (value.is_object() && value.contains(kTensorKey)) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), HoldsTensor);
}

absl::Status At(const LayerSpec& layer, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(LayerTitle(layer.class_name, layer.name), ": ", std::string(status.message())));
}

}  // namespace

std::optional<ConstantNumbers> Graph::Builder::KnownOf(size_t input) const {
  if (const auto& constant = model_.nodes[input].constant) return KnownArray(*constant);
  const auto found = known_.find(input);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

const NumberArray* Graph::Builder::ConstantOf(size_t input) const {
  if (const auto& constant = model_.nodes[input].constant) return &*constant;
  const auto found = operands_.find(input);
  return found == operands_.end() ? nullptr : &found->second;
}

// Whether all inputs of a call are known numbers, at least one computed from shapes.
bool Graph::Builder::MayFold(const NodeSpec& node) const {
  const LayerSpec& layer = model_.layers[node.layer];
  if (!model_.keras2 || !layer.operation || layer.unusable) return false;
  const bool makes = MakesNumbers(layer.class_name);
  if (!makes && !FoldsNumbers(layer.class_name)) return false;
  bool any = makes;
  for (const size_t input : node.inputs) {
    if (!KnownOf(input).has_value()) return false;
    any = any || known_.contains(input);
  }
  return any && std::all_of(node.masks.begin(), node.masks.end(),
                            [&](const auto& mask) { return known_.contains(mask.second); });
}

absl::StatusOr<ConstantNumbers> Graph::Builder::Fold(const NodeSpec& node) const {
  std::vector<size_t> inputs = node.inputs;
  json kwargs = node.kwargs;
  for (const auto& [name, input] : node.masks) {
    kwargs[name] = {{kTensorKey, inputs.size()}};
    inputs.push_back(input);
  }
  return FoldNumbers(model_.layers[node.layer].class_name, node.args, kwargs,
                     [&](const json& tensor) -> absl::StatusOr<ConstantNumbers> {
                       return *KnownOf(inputs[tensor[kTensorKey].get<size_t>()]);
                     });
}

absl::StatusOr<ConstantNumbers> Graph::Builder::SizesOf(const std::string& operation,
                                                        size_t input) const {
  const std::optional<ConstantNumbers> of = KnownOf(input);
  ConstantNumbers sizes;
  if (of.has_value()) {
    sizes.shape = {static_cast<int64_t>(of->shape.size())};
    sizes.values.assign(of->shape.begin(), of->shape.end());
    sizes.of_batch.assign(sizes.values.size(), false);
  } else {
    sizes = KnownShape(graph_.shape(values_[input]));
  }
  if (operation == "Shape") return sizes;
  if (operation == "Rank") {
    return ConstantNumbers{{}, {static_cast<double>(sizes.shape[0])}, {false}};
  }
  return FoldNumbers("Prod", json::array({{{kTensorKey, 0}}}), json::object(),
                     [&](const json&) -> absl::StatusOr<ConstantNumbers> { return sizes; });
}

absl::StatusOr<std::optional<Graph::Value>> Graph::Builder::FoldCall(const NodeSpec& node) {
  const size_t index = values_.size();
  const LayerSpec& layer = model_.layers[node.layer];
  const bool sizes = IsSizeOf(layer.class_name) && node.inputs.size() == 1;
  if (node.unknown || !model_.keras2 || !layer.operation || layer.unusable) return std::nullopt;
  const auto element = [](const ConstantNumbers& of, size_t at) {
    return FoldNumbers("GetItem", json::array({{{kTensorKey, 0}}, at}), json::object(),
                       [&](const json&) -> absl::StatusOr<ConstantNumbers> { return of; });
  };
  absl::StatusOr<ConstantNumbers> folded;
  if (node.output > 0) {
    const auto whole = known_parts_.find(node.inputs[0]);
    if (whole == known_parts_.end()) return std::nullopt;
    folded = element(whole->second, node.output);
  } else if ((sizes || MakesNumbers(layer.class_name)) && !InputsKnown(node)) {
    return kUnknown;
  } else if (sizes) {
    folded = SizesOf(layer.class_name, node.inputs[0]);
  } else if (MayFold(node)) {
    folded = Fold(node);
    if (folded.ok() && layer.class_name == "Unstack") {
      known_parts_[index] = *folded;
      folded = element(known_parts_[index], 0);
    }
  } else if (MakesNumbers(layer.class_name)) {
    folded = absl::InvalidArgumentError(
        "takes a number that is computed of the data; supported: of shapes alone");
  } else {
    return std::nullopt;
  }
  if (!folded.ok()) return At(layer, folded.status());
  if (const absl::StatusOr<NumberArray> operand = KnownOperand(*folded); operand.ok()) {
    operands_[index] = *operand;
  }
  known_[index] = *std::move(folded);
  return kNone;
}

// Whether some argument is known numbers, or has to be.
bool Graph::Builder::TakesNumbers(const NodeSpec& node) const {
  if (!model_.keras2) return false;
  const auto known = [&](size_t input) { return known_.contains(input); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), known) || HoldsTensor(node.kwargs) ||
         std::any_of(node.masks.begin(), node.masks.end(),
                     [&](const auto& mask) { return known(mask.second); }) ||
         (model_.layers[node.layer].class_name == "GetItem" && node.args.size() > 1 &&
          HoldsTensor(node.args[1]));
}

// Puts known numbers into a call: a single number, and every argument except operands, becomes a
// literal; lists of numbers among the operands become constants.
absl::StatusOr<NodeSpec> Graph::Builder::WithNumbers(const NodeSpec& node) const {
  const LayerSpec& layer = model_.layers[node.layer];
  NodeSpec result = node;
  result.inputs.clear();
  absl::Status problem;
  const auto fail = [&](const absl::Status& status) {
    if (problem.ok()) problem = status;
    return json();
  };
  const std::function<json(const json&, bool)> replace = [&](const json& value, bool operand) {
    if (value.is_object() && value.contains(kTensorKey)) {
      const size_t input = node.inputs[value[kTensorKey].get<size_t>()];
      const std::optional<ConstantNumbers> numbers = KnownOf(input);
      const bool literal =
          numbers.has_value() && known_.contains(input) && (!operand || numbers->shape.empty());
      if (literal || (!operand && numbers.has_value())) {
        const absl::StatusOr<json> number = KnownLiteral(*numbers);
        if (!number.ok()) return fail(number.status());
        if (!operand || !number->is_null()) return *number;
      }
      if (!operand) {
        return fail(absl::InvalidArgumentError(
            "takes a number that is computed of the data; supported: of shapes alone"));
      }
      if (known_.contains(input) && ConstantOf(input) == nullptr) {
        return fail(KnownOperand(*numbers).status());
      }
      json placed = value;
      placed[kTensorKey] = result.inputs.size();
      if (known_.contains(input)) placed[kConstantKey] = true;
      result.inputs.push_back(input);
      return placed;
    }
    if (!value.is_structured()) return value;
    json copy = value;
    for (json& entry : copy) entry = replace(entry, operand);
    return copy;
  };
  const bool slice = layer.class_name == "GetItem";
  for (size_t i = 0; i < result.args.size(); ++i) {
    result.args[i] = replace(node.args[i], /*operand=*/!slice || i == 0);
  }
  for (auto& [name, value] : result.kwargs.items()) value = replace(node.kwargs[name], false);
  result.masks.clear();
  for (const auto& [name, input] : node.masks) {
    if (!known_.contains(input)) {
      result.masks.emplace(name, input);
      continue;
    }
    const absl::StatusOr<json> number = KnownLiteral(*KnownOf(input));
    result.kwargs[name] = number.ok() ? *number : fail(number.status());
  }
  if (!problem.ok()) return At(layer, problem);
  return result;
}

}  // namespace paracord
