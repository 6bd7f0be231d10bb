// How a graph comes to be: layers, shapes, and the plan of its memory.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "worker/layers/layers.h"
#include "worker/layers/mask_fill.h"
#include "worker/model/graph.h"

namespace paracord {
namespace {

absl::Status At(const std::string& class_name, const std::string& name, absl::Status status) {
  return absl::Status(status.code(),
                      absl::StrCat(LayerTitle(class_name, name), ": ", status.message()));
}

// The shape of an input of the model, -1 for what it leaves open, without the batch; nullopt: the
// model was never built, and takes what the data has.
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

// As Keras' fit: a last axis of 1 may be missing, or be there too much.
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
                                                 ", but the data has ", ShapeName(data)));
}

// The arguments of a call that say anything.
nlohmann::json Meaning(nlohmann::json kwargs) {
  for (auto it = kwargs.begin(); it != kwargs.end();) {
    it = it->is_null() || *it == false ? kwargs.erase(it) : std::next(it);
  }
  return kwargs;
}

}  // namespace

void Graph::AddVariables(Layer& layer, Node& node) {
  const auto [first, is_new] = first_variable_.emplace(&layer, variables_.size());
  node.first_variable = first->second;
  if (!is_new) {  // what a call says of them may depend on how many there are
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
  absl::Status fits = shape.ok() ? CheckElements(*shape) : shape.status();
  if (!fits.ok()) return At(layer.class_name(), layer.name(), fits);
  node.shape = *std::move(shape);

  node.precision = layer.precision().value_or(Precision::kFloat32);
  if (!layer.precision().has_value() && data_inputs > 0) {  // as its inputs, if they agree
    node.precision = nodes_[node.inputs[0]].precision;
    for (size_t i = 1; i < data_inputs; ++i) {
      if (nodes_[node.inputs[i]].precision != node.precision) node.precision = Precision::kFloat32;
    }
  }
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

// Adds the calls of a model file to a graph.
class Graph::Builder {
 public:
  Builder(Graph& graph, const ModelSpec& model, Problems& problems)
      : graph_(graph),
        model_(model),
        problems_(problems),
        layers_(model.layers.size(), nullptr),
        failed_(model.layers.size()) {}

  // True if all outputs are there.
  bool Add(std::span<const std::optional<Shape>> data);

 private:
  void Problem(const absl::Status& status);
  Value AddInput(size_t input, const std::optional<Shape>& data);
  absl::StatusOr<Layer*> LayerOf(const NodeSpec& node);
  bool InputsKnown(const NodeSpec& node) const;
  absl::StatusOr<Value> AddCallOf(const NodeSpec& node);
  absl::StatusOr<Value> AddNode(const NodeSpec& node, Layer& layer);
  absl::Status CastInputs(Layer& layer, std::vector<Value>& inputs);
  absl::StatusOr<Value> AddPart(const NodeSpec& node);
  absl::StatusOr<Value> AddFolded(Layer& layer, std::span<const Value> inputs);
  std::vector<Value> MasksOf(const NodeSpec& node, const Layer& layer,
                             std::span<const Value> inputs) const;
  absl::StatusOr<Value> AddMaskedProduct(Layer& layer, std::vector<Value> inputs,
                                         std::span<const Value> masks, Value output_mask);
  absl::StatusOr<Value> AddMaskedExtreme(Layer& layer, std::span<const Value> inputs,
                                         std::span<const Value> masks);
  absl::StatusOr<Value> AddChoice(Layer& layer, Value mask, Value x, Value other);
  absl::StatusOr<Value> AndMask(const Layer& layer, std::span<const Value> masks);
  absl::StatusOr<Value> OutputMask(Layer& layer, std::span<const Value> inputs);
  absl::StatusOr<Value> AddActivation(Layer& layer, Activation activation, Value input);
  void SetMask(Value value, Value mask) {
    masks_.resize(graph_.nodes_.size(), kNone);
    masks_[value] = mask;
  }
  Value MaskOf(Value value) const { return value < masks_.size() ? masks_[value] : kNone; }
  Layer& Own(std::unique_ptr<Layer> layer) {
    graph_.layers_.push_back(std::move(layer));
    return *graph_.layers_.back();
  }

  Graph& graph_;
  const ModelSpec& model_;
  Problems& problems_;
  std::vector<Layer*> layers_;
  std::vector<bool> failed_;                       // by layer: it cannot be made
  std::map<size_t, const NodeSpec*> first_calls_;  // by layer
  std::vector<Value> values_;                      // by node of the model
  std::map<size_t, Value> whole_;  // by node: all outputs of a layer that has several
  std::vector<Value> masks_;       // by value
};

void Graph::Builder::Problem(const absl::Status& status) {
  const std::string line(status.message());  // a layer that is called twice says it twice
  const std::vector<std::string>& lines = problems_.lines();
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) problems_.Add("", line);
}

// Where the data does not fit, the model goes on with the shape that it declares.
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
    const bool mode = !layer->one_mode() || node.training == first.training;
    if (mode && Meaning(node.kwargs) == Meaning(first.kwargs)) return layer;
    return At(spec.class_name, spec.name,
              absl::InvalidArgumentError("is called with other arguments than before"));
  }
  first_calls_[node.layer] = &node;
  nlohmann::json options = spec.config;
  // Keras 2 calls a function; what Keras 3 has in an operation's config is an argument there.
  if (spec.operation && model_.keras2) options.update(node.kwargs);
  LayerConfig config(spec.class_name, spec.name, options, model_.keras2);
  config.SetCall(node.args, node.kwargs);
  config.SetTraining(node.training);
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

// kUnknown where that follows from a problem before.
absl::StatusOr<Graph::Value> Graph::Builder::AddCallOf(const NodeSpec& node) {
  if (node.unknown || failed_[node.layer] || model_.layers[node.layer].unusable) return kUnknown;
  if (node.output > 0) return InputsKnown(node) ? AddPart(node) : kUnknown;
  ASSIGN_OR_RETURN(Layer* const layer, LayerOf(node));
  if (!InputsKnown(node)) return kUnknown;
  const size_t first = graph_.nodes_.size();
  ASSIGN_OR_RETURN(const Value value, AddNode(node, *layer));
  for (size_t i = first; i < graph_.nodes_.size(); ++i) graph_.nodes_[i].training = node.training;
  return value;
}

// The mask of each input: the one that the call names, or else the one that came with the input.
std::vector<Graph::Value> Graph::Builder::MasksOf(const NodeSpec& node, const Layer& layer,
                                                  std::span<const Value> inputs) const {
  static constexpr const char* kNames[] = {"query_mask", "value_mask", "key_mask"};
  std::vector<Value> masks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value mask = layer.masks_come_along(inputs.size()) ? MaskOf(inputs[i]) : kNone;
    if (i == 0 && node.masks.count("mask") != 0) mask = values_[node.masks.at("mask")];
    if (i < 3 && node.masks.count(kNames[i]) != 0) mask = values_[node.masks.at(kNames[i])];
    masks.push_back(mask);
  }
  return masks;
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

// Keras 3's Multiply takes 1 for what a mask hides, and gives 0 where all are hidden.
absl::StatusOr<Graph::Value> Graph::Builder::AddMaskedProduct(Layer& layer,
                                                              std::vector<Value> inputs,
                                                              std::span<const Value> masks,
                                                              Value output_mask) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (masks[i] == kNone) continue;
    ASSIGN_OR_RETURN(inputs[i],
                     graph_.AddCall(Own(MakeMaskFill(layer, 1)), {inputs[i], masks[i]}, 1));
  }
  ASSIGN_OR_RETURN(const Value product, AddFolded(layer, inputs));
  if (output_mask == kNone) return product;
  return graph_.AddCall(Own(MakeMaskFill(layer, 0)), {product, output_mask}, 1);
}

// x where the mask is not zero, else the other.
absl::StatusOr<Graph::Value> Graph::Builder::AddChoice(Layer& layer, Value mask, Value x,
                                                       Value other) {
  const Activation negation{ActivationKind::kAffine, -1, 1, 0};
  ASSIGN_OR_RETURN(const Value rest,
                   graph_.AddCall(Own(MakeActivationLayer(layer, negation)), {mask}, 0));
  ASSIGN_OR_RETURN(x, graph_.AddCall(Own(MakeMaskFill(layer, 0)), {x, mask}, 1));
  ASSIGN_OR_RETURN(other, graph_.AddCall(Own(MakeMaskFill(layer, 0)), {other, rest}, 1));
  return graph_.AddCall(Own(MakeAddLayer(layer)), {x, other}, 2);
}

// Keras 3's Maximum and Minimum leave out what a mask hides; where all is hidden, the first input
// counts.
absl::StatusOr<Graph::Value> Graph::Builder::AddMaskedExtreme(Layer& layer,
                                                              std::span<const Value> inputs,
                                                              std::span<const Value> masks) {
  Value value = inputs[0], mask = masks[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    Value next = inputs[i];
    if (masks[i] != kNone) {
      ASSIGN_OR_RETURN(next, AddChoice(layer, masks[i], next, value));
    }
    if (mask != kNone) {
      ASSIGN_OR_RETURN(value, AddChoice(layer, mask, value, next));
    }
    if (mask == kNone || masks[i] == kNone) {
      mask = kNone;
    } else if (i + 1 < inputs.size()) {
      ASSIGN_OR_RETURN(mask, graph_.AddCall(Own(MakeOrLayer(layer)), {mask, masks[i]}, 0));
    }
    ASSIGN_OR_RETURN(value, graph_.AddCall(layer, {value, next}, 2));
  }
  return value;
}

// Of those that are there, as Keras 2 has it.
absl::StatusOr<Graph::Value> Graph::Builder::AndMask(const Layer& layer,
                                                     std::span<const Value> masks) {
  Value mask = kNone;
  for (const Value next : masks) {
    if (next == kNone || mask == kNone) {
      mask = mask == kNone ? next : mask;
      continue;
    }
    const nlohmann::json none = nlohmann::json::object();
    LayerConfig config("Minimum", layer.name(), none, model_.keras2);
    ASSIGN_OR_RETURN(mask, graph_.AddCall(Own(MakeMerge(config)), {mask, next}, 0));
  }
  return mask;
}

absl::StatusOr<Graph::Value> Graph::Builder::OutputMask(Layer& layer,
                                                        std::span<const Value> inputs) {
  std::vector<Value> masks;
  for (const Value input : inputs) masks.push_back(MaskOf(input));
  const bool all = std::find(masks.begin(), masks.end(), kNone) == masks.end();
  switch (layer.mask_rule()) {
    case Layer::MaskRule::kStop:
      return kNone;
    case Layer::MaskRule::kPass:
      return masks[0];
    case Layer::MaskRule::kOr: {
      if (model_.keras2) return AndMask(layer, masks);
      if (!all) return kNone;
      Value mask = masks[0];
      for (size_t i = 1; i < masks.size(); ++i) {
        ASSIGN_OR_RETURN(mask, graph_.AddCall(Own(MakeOrLayer(layer)), {mask, masks[i]}, 0));
      }
      return mask;
    }
    case Layer::MaskRule::kCompute:
      break;
  }
  std::vector<Shape> shapes;
  std::vector<Value> all_inputs(inputs.begin(), inputs.end());
  all_inputs.insert(all_inputs.end(), masks.begin(), masks.end());
  for (const Value v : all_inputs) shapes.push_back(v == kNone ? Shape() : graph_.shape(v));
  std::unique_ptr<Layer> made = layer.MakeMaskLayer(shapes);
  if (made == nullptr) return kNone;
  return graph_.AddCall(Own(std::move(made)), std::move(all_inputs), 0);
}

// A layer of a mixed policy rounds its inputs; ids stay as they are.
absl::Status Graph::Builder::CastInputs(Layer& layer, std::vector<Value>& inputs) {
  const std::optional<Precision> precision = layer.precision();
  if (precision.value_or(Precision::kFloat32) == Precision::kFloat32) return absl::OkStatus();
  if (layer.ids_below().has_value()) return absl::OkStatus();
  for (Value& input : inputs) {
    if (graph_.nodes_[input].precision == *precision) continue;
    ASSIGN_OR_RETURN(input, AddActivation(layer, {ActivationKind::kAffine, 1, 0, 0}, input));
    graph_.nodes_[input].cast = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph::Value> Graph::Builder::AddNode(const NodeSpec& node, Layer& layer) {
  std::vector<Value> inputs;
  for (const size_t input : node.inputs) inputs.push_back(values_[input]);
  const size_t data_inputs = inputs.size();
  const bool operation = model_.layers[node.layer].operation;
  Value mask = kNone;  // no mask goes through an operation on tensors
  if (!operation) {
    ASSIGN_OR_RETURN(mask, OutputMask(layer, inputs));
  }
  const std::vector<Value> masked = MasksOf(node, layer, inputs);
  for (size_t i = 0; i < inputs.size() && layer.removes_masks(); ++i) SetMask(inputs[i], kNone);
  RETURN_IF_ERROR(CastInputs(layer, inputs));
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
      const auto more = node.masks.find("attention_mask");
      if (more != node.masks.end()) inputs.push_back(values_[more->second]);
    }
    ASSIGN_OR_RETURN(value, graph_.AddCall(layer, std::move(inputs), data_inputs));
  }
  if (const auto activation = layer.activation_after()) {
    ASSIGN_OR_RETURN(value, AddActivation(layer, *activation, value));
  }
  if (const std::vector<Shape> parts = layer.parts(); !parts.empty()) {
    whole_[values_.size()] = value;
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

// An output of an earlier call other than the first.
absl::StatusOr<Graph::Value> Graph::Builder::AddPart(const NodeSpec& node) {
  const Layer& layer = *layers_[node.layer];
  const std::vector<Shape> parts = layer.parts();
  if (node.output >= parts.size()) {
    return At(layer.class_name(), layer.name(),
              absl::InvalidArgumentError(absl::StrCat("has no output ", node.output)));
  }
  int64_t from = 0;
  for (size_t i = 0; i < node.output; ++i) from += Elements(parts[i]);
  return graph_.AddCall(Own(MakePartLayer(layer, parts[node.output], from)),
                        {whole_.at(node.inputs[0])}, 1);
}

bool Graph::Builder::Add(std::span<const std::optional<Shape>> data) {
  for (const NodeSpec& node : model_.nodes) {
    Value value = kUnknown;
    if (node.inputs.empty()) {
      const auto at = std::find_if(model_.inputs.begin(), model_.inputs.end(),
                                   [&](const Endpoint& e) { return e.node == values_.size(); });
      const auto index = static_cast<size_t>(at - model_.inputs.begin());
      value = AddInput(index, data[index]);
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
  graph->short_operands_ = model.short_operands;
  return Builder(*graph, model, problems).Add(data) ? std::move(graph) : nullptr;
}

}  // namespace paracord
