// Builds a graph from a model file: layers, calls, and shapes.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "keras/graph_builder.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

absl::Status At(const std::string& class_name, const std::string& name, absl::Status status) {
  return absl::Status(status.code(),
                      absl::StrCat(LayerTitle(class_name, name), ": ", status.message()));
}

// The declared shape of an input of the model without the batch, -1 for open sizes; nullopt if the
// model was never built and takes the data's shape.
absl::StatusOr<std::optional<Shape>> DeclaredShape(const LayerSpec& layer, bool keras2) {
  LayerConfig config(layer.class_name, layer.name, layer.config, keras2);
  const std::string key = config.Has("batch_shape") ? "batch_shape" : "batch_input_shape";
  std::optional<Shape> shape;
  if (config.Has(key)) {
    Shape dims = config.Dims(key);
    if (dims.empty()) config.Fail(key, "has no batch axis");
    if (!dims.empty()) shape = Shape(dims.begin() + 1, dims.end());
  }
  RETURN_IF_ERROR(config.Finish());
  return shape;
}

bool Fits(const Shape& declared, const Shape& data) {
  return std::equal(declared.begin(), declared.end(), data.begin(), data.end(),
                    [](int64_t want, int64_t have) { return want < 0 || want == have; });
}

// Says how a model would take data of as many numbers in another shape; "" for other data.
std::string ReshapeHint(const Shape& declared, const Shape& data) {
  const auto size = [](const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>());
  };
  const bool open = std::ranges::any_of(declared, [](int64_t axis) { return axis < 0; });
  if (open || size(declared) != size(data)) return "";
  return absl::StrCat("; a model that begins with Input(", ShapeName(data), ") and ",
                      declared.size() == 1 ? std::string("Flatten()")
                                           : absl::StrCat("Reshape(", ShapeName(declared), ")"),
                      " takes it");
}

// Like Keras' fit, accepts a missing or superfluous last axis of size 1.
absl::StatusOr<Shape> FitInput(const std::optional<Shape>& declared, const Shape& data) {
  if (!declared.has_value()) return data.empty() ? Shape{1} : data;
  if (Fits(*declared, data)) return data;
  Shape other = data;
  if (declared->size() == data.size() + 1) {
    other.push_back(1);
  } else if (!data.empty() && data.back() == 1) {
    other.pop_back();
  }
  if (Fits(*declared, other)) return other;
  return absl::InvalidArgumentError(absl::StrCat("expects examples of shape ", ShapeName(*declared),
                                                 ", but the data has ", ShapeName(data),
                                                 ReshapeHint(*declared, data)));
}

// True if the second positional argument of the layer's call is "mask" in Keras 3.
bool TakesMaskSecond(const std::string& class_name) {
  return class_name == "Softmax" || class_name == "GlobalAveragePooling1D";
}

// Refuses empty and huge shapes: layers divide by sizes and allocate memory for every value.
absl::Status CheckOutput(const Shape& shape) {
  constexpr size_t kAxesMax = 64;
  if (shape.size() > kAxesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("would have ", shape.size(), " axes: more than ", kAxesMax));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("would have no elements, as of shape ", ShapeName(shape)));
  }
  return CheckElements(shape);
}

// The arguments of a call, without those that are null or false.
nlohmann::json Meaning(nlohmann::json kwargs) {
  for (auto it = kwargs.begin(); it != kwargs.end();) {
    it = it->is_null() || *it == false ? kwargs.erase(it) : std::next(it);
  }
  return kwargs;
}

}  // namespace

absl::Status AtLayer(const Layer& layer, const absl::Status& status) {
  return At(layer.class_name(), layer.name(), status);
}

void Graph::AddVariables(Layer& layer, Node& node) {
  const auto [first, is_new] = first_variable_.emplace(&layer, variables_.size());
  node.first_variable = first->second;
  if (!is_new) {  // the variables may depend on how often the layer is called
    std::copy(layer.variables().begin(), layer.variables().end(),
              variables_.begin() + static_cast<std::ptrdiff_t>(node.first_variable));
    return;
  }
  variables_.insert(variables_.end(), layer.variables().begin(), layer.variables().end());
  for (size_t v = node.first_variable; v < variables_.size(); ++v) {
    for (const Regularizer& r : layer.regularizers()) {
      if (variables_[v].name().ends_with("/" + r.variable)) penalties_.push_back({v, r.l1, r.l2});
    }
  }
}

absl::StatusOr<Graph::Value> Graph::AddCall(Layer& layer, std::vector<Value> inputs,
                                            size_t data_inputs) {
  Node node;
  node.layer = &layer;
  node.data_inputs = data_inputs;
  for (const Value input : inputs) {
    node.input_shapes.push_back(input == kNone ? Shape() : nodes_[input].shape);
  }
  node.inputs = std::move(inputs);
  absl::StatusOr<Shape> shape = layer.OutputShape(node.input_shapes);
  absl::Status fits = shape.ok() ? CheckOutput(*shape) : shape.status();
  if (!fits.ok()) return At(layer.class_name(), layer.name(), fits);
  node.shape = *std::move(shape);

  node.operands = layer.operands().value_or(Operands::kFloat32);
  if (!layer.operands().has_value() && data_inputs > 0) {  // the inputs' precision, if uniform
    node.operands = nodes_[node.inputs[0]].operands;
    for (size_t i = 1; i < data_inputs; ++i) {
      if (nodes_[node.inputs[i]].operands != node.operands) node.operands = Operands::kFloat32;
    }
  }
  if (frozen_) layer.Freeze();
  AddVariables(layer, node);
  const auto data = std::span(node.inputs).first(data_inputs);
  node.needs_gradient =
      layer.differentiable() &&
      (std::any_of(layer.variables().begin(), layer.variables().end(),
                   [](const VariableSpec& v) { return v.trainable(); }) ||
       std::any_of(data.begin(), data.end(), [&](Value v) { return nodes_[v].needs_gradient; }));
  node.salt = Mix64(nodes_.size(), layer.name());
  if (layer.is_view()) {
    node.storage = nodes_[node.inputs[0]].storage;
  } else {
    node.storage = storages_.size();
    storages_.emplace_back().size = Elements(node.shape);
  }
  nodes_.push_back(std::move(node));
  return nodes_.size() - 1;
}

void Graph::Builder::Problem(const absl::Status& status) {
  const std::string line(status.message());  // a layer called twice reports twice
  const std::vector<std::string>& lines = problems_.lines();
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) problems_.Add("", line);
}

// Adds an input. If the data do not fit, the build goes on with the shape declared by the model.
Graph::Value Graph::Builder::AddInput(size_t input, const std::optional<Shape>& data) {
  const NodeSpec& call = model_.nodes[model_.inputs[input].node];
  const LayerSpec& layer = model_.layers[call.layer];
  if (call.unknown || layer.unusable) return kUnknown;
  const absl::StatusOr<std::optional<Shape>> declared = DeclaredShape(layer, model_.keras2);
  if (!declared.ok()) {
    Problem(declared.status());
    return kUnknown;
  }
  std::optional<Shape> shape = *declared;
  if (data.has_value()) {
    const absl::StatusOr<Shape> fitted = InputShape(layer, model_.keras2, *data);
    if (fitted.ok()) shape = *fitted;
    if (!fitted.ok()) Problem(fitted.status());
  }
  const auto open = [](int64_t dim) { return dim <= 0; };
  if (!shape || std::any_of(shape->begin(), shape->end(), open)) return kUnknown;
  if (const absl::Status fits = CheckElements(*shape); !fits.ok()) {
    Problem(At(layer.class_name, layer.name, fits));
    return kUnknown;
  }
  Node node;
  node.shape = *std::move(shape);
  node.storage = graph_.storages_.size();
  Storage storage;
  storage.size = Elements(node.shape);
  storage.input = input;
  graph_.storages_.push_back(std::move(storage));
  graph_.nodes_.push_back(std::move(node));
  return graph_.nodes_.size() - 1;
}

absl::StatusOr<Layer*> Graph::Builder::LayerOf(const NodeSpec& node) {
  Layer*& layer = layers_[node.layer];
  const LayerSpec& spec = model_.layers[node.layer];
  if (layer != nullptr) {
    const NodeSpec& first = *first_calls_[node.layer];
    const bool mode = !layer->one_mode() || node.mode == first.mode;
    // The args of an operation are its numbers; its calls must agree.
    const bool args = !spec.operation || node.args == first.args;
    if (mode && args && Meaning(node.kwargs) == Meaning(first.kwargs)) return layer;
    return At(spec.class_name, spec.name,
              absl::InvalidArgumentError("is called with other arguments than before"));
  }
  first_calls_[node.layer] = &node;
  nlohmann::json options = spec.config;
  // In Keras 2 a function's arguments are in the call, in Keras 3 in the operation's config.
  const bool in_config = spec.operation && model_.keras2;
  if (in_config) options.update(node.kwargs);
  LayerConfig config(spec.class_name, spec.name, options, model_.keras2);
  config.SetCall(node.args, in_config ? nlohmann::json::object() : node.kwargs);
  config.SetMode(node.mode);
  absl::StatusOr<std::unique_ptr<Layer>> made = MakeLayer(config, spec.operation);
  failed_[node.layer] = !made.ok();
  RETURN_IF_ERROR(made.status());
  layer = &Own(*std::move(made));
  return layer;
}

bool Graph::Builder::InputsKnown(const NodeSpec& node) const {
  const auto known = [&](size_t input) { return values_[input] != kUnknown; };
  return std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
         std::all_of(node.masks.begin(), node.masks.end(),
                     [&](const auto& mask) { return known(mask.second); });
}

// Returns kUnknown if a problem reported before makes the call impossible.
absl::StatusOr<Graph::Value> Graph::Builder::AddCallOf(const NodeSpec& node) {
  if (node.unknown || failed_[node.layer] || model_.layers[node.layer].unusable) return kUnknown;
  if (node.output > 0) return InputsKnown(node) ? AddPart(node) : kUnknown;
  if (node.hands_mask) return InputsKnown(node) ? AddHandingMask(node) : kUnknown;
  if (TakesNumbers(node)) {
    if (!InputsKnown(node)) return kUnknown;
    ASSIGN_OR_RETURN(NodeSpec numbers, WithNumbers(node));
    return AddCallWith(calls_.emplace_back(std::move(numbers)));
  }
  return AddCallWith(node);
}

absl::StatusOr<Graph::Value> Graph::Builder::AddCallWith(const NodeSpec& node) {
  ASSIGN_OR_RETURN(Layer* const layer, LayerOf(node));
  if (!InputsKnown(node)) return kUnknown;
  const size_t first = graph_.nodes_.size();
  ASSIGN_OR_RETURN(const Value value, AddNode(node, *layer));
  for (size_t i = first; i < graph_.nodes_.size(); ++i) {
    graph_.nodes_[i].mode = node.mode;
    graph_.nodes_[i].turn = node.turn;
  }
  return value;
}

absl::StatusOr<Graph::Value> Graph::Builder::AddActivation(Layer& layer, Activation activation,
                                                           Value input) {
  return graph_.AddCall(Own(MakeActivationLayer(layer, activation)), {input}, 1);
}

absl::StatusOr<Graph::Value> Graph::Builder::AddFolded(Layer& layer,
                                                       std::span<const Value> inputs) {
  Value value = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(value, graph_.AddCall(layer, {value, inputs[i]}, 2));
  }
  if (const auto after = layer.after_folding(inputs.size())) {
    return AddActivation(layer, *after, value);
  }
  return value;
}

// Refuses inputs and arguments unknown to the layer; no part of a call is ignored.
absl::Status Graph::Builder::CheckCall(const NodeSpec& node, const Layer& layer) const {
  if (!layer.folds() && node.inputs.size() > layer.most_inputs()) {
    return AtLayer(layer, absl::InvalidArgumentError(
                              absl::StrCat("is called with ", node.inputs.size(),
                                           " tensors, and takes ", layer.most_inputs())));
  }
  const std::vector<std::string_view> known = layer.mask_arguments();
  for (const auto& [name, mask] : node.masks) {
    const std::string argument = name.substr(0, name.find('/'));
    if (std::find(known.begin(), known.end(), argument) == known.end()) {
      return AtLayer(layer,
                     absl::InvalidArgumentError(absl::StrCat(
                         "key \"", argument, "\": is not supported as an argument of its call")));
    }
    // Index of the masked input.
    size_t of = name == "value_mask" ? 1 : name == "key_mask" ? 2 : 0;
    if (argument != name) of = std::strtoul(name.c_str() + argument.size() + 1, nullptr, 10);
    if (of < node.inputs.size()) continue;
    return AtLayer(layer, absl::InvalidArgumentError(absl::StrCat(
                              "key \"", argument, "\": is for an input that its call lacks")));
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph::Value> Graph::Builder::AddConstant(const Layer& layer,
                                                         const NumberArray& array,
                                                         const absl::StatusOr<Shape>& shape) {
  if (!shape.ok()) return AtLayer(layer, shape.status());
  ASSIGN_OR_RETURN(const Value value,
                   graph_.AddCall(Own(MakeConstant(layer, *shape, array.values)), {}, 0));
  graph_.nodes_[value].cast = true;
  return value;
}

absl::StatusOr<std::vector<Graph::Value>> Graph::Builder::InputsOf(const NodeSpec& node,
                                                                   Layer& layer) {
  size_t rank = 0, constants = 0;
  for (const size_t input : node.inputs) {
    if (ConstantOf(input) != nullptr) {
      ++constants;
    } else {
      rank = std::max(rank, graph_.shape(values_[input]).size());
    }
  }
  // An Embedding may be called with constants only: positions from the model file, equal for every
  // example.
  const bool ids = layer.class_name() == "Embedding";
  if (constants == node.inputs.size() && !ids) {
    return AtLayer(layer, absl::InvalidArgumentError("all that it is called with are constants"));
  }
  std::vector<Value> inputs;
  for (const size_t input : node.inputs) {
    Value value = values_[input];
    if (const NumberArray* const array = ConstantOf(input)) {
      if (layer.Keeps(*array)) continue;
      if (ids && !std::all_of(array->values.begin(), array->values.end(),
                              [](float id) { return id >= 0 && id == std::floor(id); })) {
        return AtLayer(layer, absl::InvalidArgumentError(
                                  "is called with an array of numbers that are not all ids, which "
                                  "are whole and not negative"));
      }
      const absl::StatusOr<Shape> shape =
          ids ? array->shape : layer.ConstantShape(inputs.size(), array->shape, rank);
      ASSIGN_OR_RETURN(value, AddConstant(layer, *array, shape));
    }
    inputs.push_back(value);
  }
  return inputs;
}

// A model called with a mask sees an input with the mask, while the tensor may have another mask or
// none elsewhere. Adds a copy node with the mask.
absl::StatusOr<Graph::Value> Graph::Builder::AddHandingMask(const NodeSpec& node) {
  const LayerSpec& spec = model_.layers[node.layer];
  const nlohmann::json none = nlohmann::json::object();
  LayerConfig config(spec.class_name, spec.name, none, model_.keras2);
  config.FollowInputs();
  Layer& layer = Own(MakeIdentity(config));
  ASSIGN_OR_RETURN(const Masks masks, NamedMasks(node, layer));
  ASSIGN_OR_RETURN(const Value value, graph_.AddCall(layer, {values_[node.inputs[0]]}, 1));
  graph_.nodes_[value].cast = true;
  SetMask(value, masks.empty() ? kNone : masks.begin()->second);
  return value;
}

absl::StatusOr<Graph::Value> Graph::Builder::AddNode(const NodeSpec& call, Layer& layer) {
  NodeSpec node = call;
  const bool second = TakesMaskSecond(layer.class_name()) && node.inputs.size() == 2;
  if (second) node.inputs.pop_back();
  RETURN_IF_ERROR(CheckCall(node, layer));
  if (second) node.masks[kSecondArgument] = call.inputs[1];
  ASSIGN_OR_RETURN(std::vector<Value> inputs, InputsOf(node, layer));
  ASSIGN_OR_RETURN(const Masks named, NamedMasks(node, layer));
  const size_t data_inputs = inputs.size();
  const bool operation = model_.layers[node.layer].operation;
  Value mask = kNone;  // operations on tensors do not propagate masks
  if (!operation) {
    ASSIGN_OR_RETURN(mask, OutputMask(node, layer, named, inputs));
  }
  const std::vector<Value> masked = MasksOf(node, named, layer, inputs);
  for (size_t i = 0; i < inputs.size() && layer.removes_masks(); ++i) SetMask(inputs[i], kNone);
  Value value = kNone;
  const bool masked_merge = layer.folds() && !operation && !model_.keras2;
  if (masked_merge && layer.class_name() == "Multiply") {
    ASSIGN_OR_RETURN(value, AddMaskedProduct(layer, std::move(inputs), masked, mask));
  } else if (masked_merge && (layer.class_name() == "Maximum" || layer.class_name() == "Minimum")) {
    ASSIGN_OR_RETURN(value, AddMaskedExtreme(layer, inputs, masked));
  } else if (layer.folds()) {
    ASSIGN_OR_RETURN(value, AddFolded(layer, inputs));
  } else {
    if (layer.takes_masks()) {
      inputs.insert(inputs.end(), masked.begin(), masked.end());
      const auto more = named.find("attention_mask");
      if (more != named.end()) inputs.push_back(more->second);
    }
    ASSIGN_OR_RETURN(value, graph_.AddCall(layer, std::move(inputs), data_inputs));
  }
  if (const auto activation = layer.activation_after()) {
    ASSIGN_OR_RETURN(value, AddActivation(layer, *activation, value));
  }
  if (const std::vector<Shape> parts = layer.parts(); !parts.empty()) {
    whole_[values_.size()] = {value, mask};
    ASSIGN_OR_RETURN(value, graph_.AddCall(Own(MakePartLayer(layer, parts[0], 0)), {value}, 1));
  }
  if (layer.activity().has_value()) {
    if (!layer.parts().empty()) {
      return At(layer.class_name(), layer.name(),
                absl::InvalidArgumentError(
                    "key \"activity_regularizer\": is not supported with several outputs"));
    }
    graph_.activities_.push_back({value, *layer.activity()});
  }
  if (mask != kNone) SetMask(value, mask);
  return value;
}

// Adds an output, except the first, of an earlier call.
absl::StatusOr<Graph::Value> Graph::Builder::AddPart(const NodeSpec& node) {
  const Layer& layer = *layers_[node.layer];
  const std::vector<Shape> parts = layer.parts();
  if (node.output >= parts.size()) {
    return At(layer.class_name(), layer.name(),
              absl::InvalidArgumentError(absl::StrCat("has no output ", node.output)));
  }
  int64_t from = 0;
  for (size_t i = 0; i < node.output; ++i) from += Elements(parts[i]);
  const Whole& whole = whole_.at(node.inputs[0]);
  ASSIGN_OR_RETURN(
      const Value value,
      graph_.AddCall(Own(MakePartLayer(layer, parts[node.output], from)), {whole.value}, 1));
  if (whole.mask != kNone && node.output < layer.masked_outputs()) SetMask(value, whole.mask);
  return value;
}

bool Graph::Builder::Add(std::span<const std::optional<Shape>> data) {
  for (const NodeSpec& node : model_.nodes) {
    Value value = kUnknown;
    if (node.constant.has_value()) {
      value = kNone;  // every call makes its own constant, in the shape it needs
    } else if (node.inputs.empty()) {
      const auto at = std::find_if(model_.inputs.begin(), model_.inputs.end(),
                                   [&](const Endpoint& e) { return e.node == values_.size(); });
      const auto index = static_cast<size_t>(at - model_.inputs.begin());
      value = AddInput(index, data[index]);
    } else if (const absl::StatusOr<std::optional<Value>> folded = FoldCall(node); !folded.ok()) {
      Problem(folded.status());
    } else if (folded->has_value()) {
      value = **folded;
    } else {
      const absl::StatusOr<Value> added = AddCallOf(node);
      if (added.ok()) value = *added;
      if (!added.ok()) Problem(added.status());
    }
    values_.push_back(value);
  }
  for (const Endpoint& output : model_.outputs) {
    if (values_[output.node] == kUnknown) return false;
    graph_.outputs_.push_back(values_[output.node]);
    graph_.output_masks_.push_back(MaskOf(values_[output.node]));
  }
  graph_.FoldActivations();
  return true;
}

absl::StatusOr<Shape> Graph::InputShape(const LayerSpec& layer, bool keras2, const Shape& data) {
  ASSIGN_OR_RETURN(const std::optional<Shape> declared, DeclaredShape(layer, keras2));
  absl::StatusOr<Shape> shape = FitInput(declared, data);
  if (!shape.ok()) return At(layer.class_name, layer.name, shape.status());
  return shape;
}

std::unique_ptr<Graph> Graph::Build(Ops& ops, const ModelSpec& model,
                                    std::span<const std::optional<Shape>> data,
                                    Problems& problems) {
  std::unique_ptr<Graph> graph(new Graph(ops));
  graph->tf32_ = model.tf32;
  graph->frozen_ = model.frozen;
  return Builder(*graph, model, problems).Add(data) ? std::move(graph) : nullptr;
}

}  // namespace paracord
