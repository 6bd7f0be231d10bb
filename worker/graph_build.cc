// How a graph comes to be: layers, shapes, and the plan of its memory.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "worker/graph.h"
#include "worker/layers.h"

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

}  // namespace

absl::Status Graph::AddInput(const LayerSpec& layer, bool keras2, const Shape& data) {
  ASSIGN_OR_RETURN(const std::optional<Shape> declared, DeclaredShape(layer, keras2));
  Node node;
  absl::StatusOr<Shape> shape = FitInput(declared, data);
  if (!shape.ok()) return At(layer.class_name, layer.name, shape.status());
  node.shape = *std::move(shape);
  node.storage = storages_.size();
  Storage storage;
  storage.size = Elements(node.shape);
  storage.input = std::count_if(storages_.begin(), storages_.end(),
                                [](const Storage& s) { return s.input.has_value(); });
  storages_.push_back(std::move(storage));
  nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

absl::Status Graph::AddCall(Layer& layer, std::vector<Value> inputs) {
  Node node;
  node.layer = &layer;
  for (const Value input : inputs) node.input_shapes.push_back(nodes_[input].shape);
  node.inputs = std::move(inputs);
  absl::StatusOr<Shape> shape = layer.OutputShape(node.input_shapes);
  absl::Status fits = shape.ok() ? CheckElements(*shape) : shape.status();
  if (!fits.ok()) return At(layer.class_name(), layer.name(), fits);
  node.shape = *std::move(shape);

  const auto [first, is_new] = first_variable_.emplace(&layer, variables_.size());
  node.first_variable = first->second;
  if (is_new) {
    variables_.insert(variables_.end(), layer.variables().begin(), layer.variables().end());
  }
  node.needs_gradient = std::any_of(layer.variables().begin(), layer.variables().end(),
                                    [](const VariableSpec& v) { return v.trainable(); }) ||
                        std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](Value input) { return nodes_[input].needs_gradient; });
  node.salt = Mix64(nodes_.size(), layer.name());
  if (layer.is_view()) {
    node.storage = nodes_[node.inputs[0]].storage;
  } else {
    node.storage = storages_.size();
    storages_.emplace_back().size = Elements(node.shape);
  }
  nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> Graph::Build(Ops& ops, const ModelSpec& model,
                                                    std::span<const Shape> data) {
  std::unique_ptr<Graph> graph(new Graph(ops));
  std::vector<Value> values;  // by node of the model
  std::vector<Layer*> layers(model.layers.size(), nullptr);
  for (const NodeSpec& node : model.nodes) {
    const LayerSpec& spec = model.layers[node.layer];
    if (node.inputs.empty()) {
      const auto at = std::find(model.inputs.begin(), model.inputs.end(), values.size());
      const auto index = static_cast<size_t>(at - model.inputs.begin());
      RETURN_IF_ERROR(graph->AddInput(spec, model.keras2, data[index]));
      values.push_back(graph->nodes_.size() - 1);
      continue;
    }
    LayerConfig config(spec.class_name, spec.name, spec.config, model.keras2);
    if (layers[node.layer] == nullptr) {
      ASSIGN_OR_RETURN(std::unique_ptr<Layer> layer, MakeLayer(config));
      layers[node.layer] = layer.get();
      graph->layers_.push_back(std::move(layer));
    }
    Layer& layer = *layers[node.layer];
    std::vector<Value> inputs;
    for (const size_t input : node.inputs) inputs.push_back(values[input]);
    RETURN_IF_ERROR(graph->AddCall(layer, std::move(inputs)));
    if (const auto activation = layer.activation_after()) {
      graph->layers_.push_back(MakeActivationLayer(config, *activation));
      RETURN_IF_ERROR(graph->AddCall(*graph->layers_.back(), {graph->nodes_.size() - 1}));
    }
    values.push_back(graph->nodes_.size() - 1);
  }
  graph->output_ = values[model.outputs[0]];
  return graph;
}

std::optional<Graph::Value> Graph::Before(ActivationKind kind) const {
  const Node& last = nodes_[output_];
  if (last.layer == nullptr) return std::nullopt;
  const auto activation = last.layer->activation();
  if (!activation.has_value() || activation->kind != kind) return std::nullopt;
  return last.inputs[0];
}

size_t Graph::TakeSlot(int64_t size, std::vector<size_t>& free) {
  // The one that fits best; growing a slot that is too small still beats another.
  auto best = free.end();
  for (auto it = free.begin(); it != free.end(); ++it) {
    if (best == free.end() ||
        std::abs(slots_[*it].size - size) < std::abs(slots_[*best].size - size)) {
      best = it;
    }
  }
  size_t slot = slots_.size();
  if (best == free.end()) {
    slots_.emplace_back();
  } else {
    slot = *best;
    free.erase(best);
  }
  slots_[slot].size = std::max(slots_[slot].size, size);
  return slot;
}

// Of nodes in training: what they must write aside because others have written before.
void Graph::PlanScratch(bool add) {
  std::vector<bool> storage_written(storages_.size(), false);
  std::vector<bool> variable_written(variables_.size(), add);
  for (size_t i = loss_value_ + 1; i-- > 0;) {
    const Node& node = nodes_[i];
    if (!node.in_training || !node.needs_gradient || node.layer->is_view()) continue;
    int64_t inputs = 0, parameters = 0;
    for (const Value input : node.inputs) {
      const size_t storage = nodes_[input].storage;
      if (!nodes_[input].needs_gradient) continue;
      if (storage_written[storage]) inputs += RoundUp(storages_[storage].size);
      storage_written[storage] = true;
    }
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      const size_t at = node.first_variable + v;
      if (variable_written[at]) parameters += RoundUp(VariableElements(variables_[at]));
      variable_written[at] = true;
    }
    scratch_inputs_ = std::max(scratch_inputs_, inputs);
    scratch_parameters_ = std::max(scratch_parameters_, parameters);
  }
}

void Graph::PlanTraining(Value loss_value, bool add) {
  loss_value_ = loss_value;
  nodes_[loss_value].in_training = true;
  std::vector<size_t> free;
  const auto take = [&](Value value) {
    Storage& storage = storages_[nodes_[value].storage];
    if (!storage.gradient_slot.has_value()) {
      storage.gradient_slot = TakeSlot(storage.size, free);
    }
  };
  take(loss_value);
  // In the order of Backward: a gradient lives from its first write, by the last node that reads
  // the value, to the node that made the value.
  for (size_t i = loss_value + 1; i-- > 0;) {
    Node& node = nodes_[i];
    if (!node.in_training || node.layer == nullptr) continue;
    for (const Value input : node.inputs) {
      nodes_[input].in_training = true;
      if (nodes_[input].needs_gradient) take(input);
    }
    Storage& own = storages_[node.storage];
    if (!node.layer->is_view() && own.gradient_slot.has_value()) {
      free.push_back(*own.gradient_slot);
    }
  }
  PlanScratch(add);
}

}  // namespace paracord
