#include "keras/preprocessing/preprocessor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/calls.h"

namespace paracord {
namespace {

absl::Status At(const LayerSpec& layer, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(LayerTitle(layer.class_name, layer.name), ": ",
                                                  status.message()));
}

// Returns the kind of the InputLayer's dtype; nullopt without a dtype: the data decide.
std::optional<RawKind> DeclaredKind(const LayerSpec& layer) {
  const auto dtype = layer.config.find("dtype");
  if (dtype == layer.config.end() || !dtype->is_string()) return std::nullopt;
  const std::string& name = dtype->get_ref<const std::string&>();
  if (name == "string") return RawKind::kString;
  const bool integer = name.starts_with("int") || name.starts_with("uint") || name == "bool";
  return integer ? RawKind::kInteger : RawKind::kFloat;
}

bool IsStep(const ModelSpec& model, const NodeSpec& node) {
  const LayerSpec& layer = model.layers[node.layer];
  return !layer.operation && !node.inputs.empty() && IsPreprocessingLayer(layer.class_name);
}

// Finds the nodes that depend on the data alone: inputs, and preprocessing layers of such nodes.
std::vector<bool> FindRaw(const ModelSpec& model) {
  std::vector<bool> raw(model.nodes.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    const NodeSpec& node = model.nodes[i];
    raw[i] = IsInput(node) ||
             (IsStep(model, node) &&
              std::ranges::all_of(node.inputs, [&](size_t input) { return raw[input]; }));
  }
  return raw;
}

// The raw nodes read only by preprocessing layers, unneeded by the rest of the model.
std::vector<bool> FindRemoved(const ModelSpec& model, const std::vector<bool>& raw) {
  std::vector<bool> needed(raw.size(), false), used(raw.size(), false);
  for (size_t i = 0; i < raw.size(); ++i) {
    const NodeSpec& node = model.nodes[i];
    const bool taken_out = raw[i] && !node.inputs.empty();
    for (const size_t input : node.inputs) {
      used[input] = true;
      if (!taken_out) needed[input] = true;
    }
    for (const auto& [name, mask] : node.masks) needed[mask] = needed[mask] || !taken_out;
  }
  for (const Endpoint& output : model.outputs) needed[output.node] = true;
  std::vector<bool> removed(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) removed[i] = raw[i] && !needed[i] && used[i];
  return removed;
}

absl::Status CheckColumn(const Column& column) {
  const Shape shape(column.shape.begin(), column.shape.end());
  for (const uint64_t dim : column.shape) {
    if (dim == 0 || dim > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeName(shape), " is not usable"));
    }
  }
  return CheckElements(shape);
}

}  // namespace

bool IsWhole(const LayerSpec& input) { return DeclaredKind(input) == RawKind::kInteger; }

bool CheckColumns(const Batch& schema, Problems& problems) {
  bool usable = true;
  for (const auto& [what, columns] :
       {std::pair("data: input", &schema.inputs), std::pair("data: targets", &schema.targets)}) {
    for (const Column& column : *columns) {
      const absl::Status status = CheckColumn(column);
      if (!status.ok()) problems.Add(what, std::string(status.message()));
      usable = usable && status.ok();
    }
  }
  return usable;
}

absl::StatusOr<std::vector<size_t>> MatchInputs(const ModelSpec& model, const Batch& schema) {
  if (model.inputs.size() == 1 && schema.inputs.size() == 1) return std::vector<size_t>{0};
  std::vector<size_t> columns;
  Problems problems;
  for (const Endpoint& input : model.inputs) {
    const auto at = std::find_if(schema.inputs.begin(), schema.inputs.end(),
                                 [&](const Column& column) { return input.Is(column.name); });
    if (at == schema.inputs.end()) {
      problems.Add(LayerTitle(kInputLayer, input.layer), "the data has no input of that name");
      continue;
    }
    columns.push_back(static_cast<size_t>(at - schema.inputs.begin()));
  }
  RETURN_IF_ERROR(problems.ToStatus());
  return columns;
}

absl::StatusOr<std::map<std::string, RawKind>> InputKinds(const nlohmann::json& model) {
  ASSIGN_OR_RETURN(const ModelSpec spec, ReadKerasModel(model));
  std::map<std::string, RawKind> kinds;
  for (const Endpoint& input : spec.inputs) {
    const LayerSpec& layer = spec.layers[spec.nodes[input.node].layer];
    const RawKind kind = DeclaredKind(layer).value_or(RawKind::kFloat);
    kinds[input.layer] = kind;
    if (!input.key.empty()) kinds[input.key] = kind;
  }
  return kinds;
}

absl::Status Preprocessor::AddInput(const ModelSpec& model, size_t node,
                                    std::span<const size_t> columns) {
  const auto at = std::ranges::find(model.inputs, node, &Endpoint::node) - model.inputs.begin();
  const LayerSpec& layer = model.layers[model.nodes[node].layer];
  const Column& column = columns_[columns[static_cast<size_t>(at)]];
  Value value;
  value.column = columns[static_cast<size_t>(at)];
  const Shape data(column.shape.begin(), column.shape.end());
  absl::StatusOr<Shape> shape = Graph::InputShape(layer, model.keras2, data);
  RETURN_IF_ERROR(shape.status());
  value.type.shape = *std::move(shape);
  value.type.kind = DeclaredKind(layer).value_or(column.text ? RawKind::kString : RawKind::kFloat);
  if (value.type.kind == RawKind::kString && !column.text) {
    return At(layer, absl::InvalidArgumentError("takes strings, but the data gives numbers"));
  }
  if (value.type.kind == RawKind::kFloat && column.text) {
    return At(layer, absl::InvalidArgumentError("takes numbers, but the data gives strings"));
  }
  values_of_[node] = values_.size();
  values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status Preprocessor::MakeStep(const ModelSpec& model, size_t node) {
  const size_t layer = model.nodes[node].layer;
  if (model.layers[layer].unusable) return absl::OkStatus();
  if (const std::string name = OtherArgument(model.nodes[node]); !name.empty()) {
    return At(model.layers[layer],
              absl::InvalidArgumentError(
                  absl::StrCat("key \"", name, "\": is not supported as an argument of its call")));
  }
  if (!step_of_layer_.emplace(layer, steps_.size()).second) return absl::OkStatus();
  auto step = MakePreprocessingStep(model.layers[layer], model.keras2);
  absl::Status status = step.status();
  steps_.push_back(step.ok() ? *std::move(step) : nullptr);
  return status;
}

bool Preprocessor::IsMade(const ModelSpec& model, size_t node) const {
  const NodeSpec& spec = model.nodes[node];
  if (model.layers[spec.layer].unusable) return false;
  return spec.inputs.empty() || steps_[step_of_layer_.at(spec.layer)] != nullptr;
}

absl::Status Preprocessor::AddStep(const ModelSpec& model, size_t node) {
  const NodeSpec& spec = model.nodes[node];
  const LayerSpec& layer = model.layers[spec.layer];
  Value value;
  value.step = steps_[step_of_layer_.at(spec.layer)].get();
  std::vector<RawType> types;
  for (const size_t input : spec.inputs) {
    value.inputs.push_back(values_of_.at(input));
    types.push_back(values_[value.inputs.back()].type);
  }
  absl::StatusOr<RawType> type = value.step->OutputType(types);
  if (!type.ok()) return At(layer, type.status());
  value.type = *std::move(type);
  rows_.push_back({.name = layer.name, .class_name = layer.class_name, .output = value.type.shape});
  values_of_[node] = values_.size();
  values_.push_back(std::move(value));
  return absl::OkStatus();
}

// Refuses integers beyond float32 on their way into the graph, except for ids of an Embedding.
absl::Status Preprocessor::CheckExported(const ModelSpec& model, size_t node) const {
  const Value& value = values_[values_of_.at(node)];
  if (value.step == nullptr || value.type.kind != RawKind::kInteger) return absl::OkStatus();
  if (value.type.below <= kExactBelow) return absl::OkStatus();
  const auto reads_as_float = [&](const NodeSpec& reader) {
    const LayerSpec& layer = model.layers[reader.layer];
    if (IsStep(model, reader)) return false;
    const size_t ids = LooksUpIds(layer) && !reader.inputs.empty() ? 1 : 0;
    return std::find(reader.inputs.begin() + static_cast<std::ptrdiff_t>(ids), reader.inputs.end(),
                     node) != reader.inputs.end();
  };
  const auto is_output = [&](const Endpoint& output) { return output.node == node; };
  if (std::ranges::none_of(model.nodes, reads_as_float) &&
      std::ranges::none_of(model.outputs, is_output)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      LayerTitle(value.step->class_name(), value.step->name()), ": has ", value.type.below,
      " indices, and float32 tells 2^24 apart; only an Embedding ", "takes more"));
}

absl::Status Preprocessor::Rewrite(ModelSpec& model, Batch& schema) {
  const std::vector<bool> raw = FindRaw(model);
  const std::vector<bool> removed = FindRemoved(model, raw);
  ModelSpec rest = model;
  rest.nodes.clear();
  rest.inputs.clear();
  std::vector<size_t> moved(raw.size());
  std::vector<Column> inputs;
  for (size_t i = 0; i < raw.size(); ++i) {
    NodeSpec node = model.nodes[i];
    if (removed[i]) continue;
    moved[i] = rest.nodes.size();
    for (size_t& input : node.inputs) input = moved[input];
    for (auto& [name, mask] : node.masks) mask = moved[mask];
    if (raw[i]) {
      const Value& value = values_[values_of_.at(i)];
      RETURN_IF_ERROR(CheckExported(model, i));
      exports_.push_back(values_of_.at(i));
      const size_t place = exports_.size() - 1;
      // The new input gets a name that no layer has, because a layer may be called more than once.
      const std::string name = absl::StrCat(model.layers[node.layer].name, "#", place);
      Column column{
          .name = name, .shape = {value.type.shape.begin(), value.type.shape.end()}, .values = {}};
      if (value.column.has_value()) column.shape = columns_[*value.column].shape;
      inputs.push_back(std::move(column));
      Endpoint input{.node = moved[i], .layer = name, .key = ""};
      if (value.column.has_value()) {
        input.key = std::ranges::find(model.inputs, i, &Endpoint::node)->key;
      } else {
        nlohmann::json shape = nlohmann::json::array({nullptr});
        for (const int64_t dim : value.type.shape) shape.push_back(dim);
        rest.layers.push_back(
            {.class_name = kInputLayer, .name = name, .config = {{"batch_shape", shape}}});
        node = NodeSpec{};
        node.layer = rest.layers.size() - 1;
      }
      rest.inputs.push_back(std::move(input));
    }
    rest.nodes.push_back(std::move(node));
  }
  for (Endpoint& output : rest.outputs) output.node = moved[output.node];
  for (const size_t exported : exports_) {
    const Value& value = values_[exported];
    if (value.column.has_value() && columns_[*value.column].text) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: input \"", columns_[*value.column].name,
                       "\" is strings, which only preprocessing layers take"));
    }
  }
  model = std::move(rest);
  schema.inputs = std::move(inputs);
  return absl::OkStatus();
}

// Marks the nodes unknown to the graph: preprocessing layers and inputs of strings.
void Preprocessor::MarkUnknown(const std::vector<bool>& raw, bool has_data,
                               ModelSpec& model) const {
  for (size_t i = 0; i < raw.size(); ++i) {
    NodeSpec& node = model.nodes[i];
    if (!raw[i]) continue;
    if (!node.inputs.empty()) {
      node.unknown = true;
    } else if (!has_data) {
      node.unknown = DeclaredKind(model.layers[node.layer]) == RawKind::kString;
    } else if (!node.unknown) {
      node.unknown = columns_[*values_[values_of_.at(i)].column].text;
    }
  }
}

std::unique_ptr<Preprocessor> Preprocessor::TakeOut(ModelSpec& model, Batch* schema,
                                                    Problems& problems) {
  const std::vector<bool> raw = FindRaw(model);
  bool any = false;
  for (size_t i = 0; i < raw.size(); ++i) any = any || (raw[i] && !model.nodes[i].inputs.empty());
  if (!any) return nullptr;
  std::unique_ptr<Preprocessor> made(new Preprocessor);
  std::vector<size_t> columns;  // columns of the model's inputs
  if (schema != nullptr) {
    made->columns_ = schema->inputs;
    columns = MatchInputs(model, *schema).value();  // was looked at before
  }
  bool all_known = true;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (!raw[i]) continue;
    NodeSpec& node = model.nodes[i];
    const bool input = node.inputs.empty();
    absl::Status status = input ? absl::OkStatus() : made->MakeStep(model, i);
    node.unknown =
        schema == nullptr || !status.ok() || !made->IsMade(model, i) ||
        std::ranges::any_of(node.inputs, [&](size_t from) { return model.nodes[from].unknown; });
    if (!node.unknown) {
      status = input ? made->AddInput(model, i, columns) : made->AddStep(model, i);
      node.unknown = !status.ok();
    }
    if (!status.ok()) problems.Add("", std::string(status.message()));
    all_known = all_known && !node.unknown;
  }
  const absl::Status rewritten = all_known ? made->Rewrite(model, *schema) : absl::OkStatus();
  if (all_known && rewritten.ok()) return made;
  if (!rewritten.ok()) problems.Add("", std::string(rewritten.message()));
  made->MarkUnknown(raw, schema != nullptr, model);
  return nullptr;
}

// Reads an input's values in the kind taken by the layers.
absl::Status Preprocessor::Bind(const Batch& batch, Value& value) const {
  const Column& column = batch.inputs[*value.column];
  const Column& expected = columns_[*value.column];
  const size_t elements = batch.examples * static_cast<size_t>(Elements(value.type.shape));
  const size_t given = column.text ? column.strings.size() : column.values.size();
  if (column.text != expected.text || column.shape != expected.shape || given != elements) {
    return absl::InvalidArgumentError(absl::StrCat("input \"", column.name,
                                                   "\" of the batch is not what the model was "
                                                   "built for"));
  }
  value.view.kind = value.type.kind;
  value.view.strings = column.strings;
  value.view.floats = column.values;
  if (value.type.kind == RawKind::kFloat && !column.exact.empty()) {
    // An input not declared as whole numbers may still hold ids: lookup layers get all their
    // digits.
    const auto is_part = [](float number) { return number != std::trunc(number); };
    if (std::ranges::any_of(column.values, is_part) || WholeNumbers(column, value.integers)) {
      return absl::OkStatus();
    }
    value.view.kind = RawKind::kInteger;
    value.view.integers = value.integers;
  }
  if (value.type.kind != RawKind::kInteger) return absl::OkStatus();
  value.integers.resize(elements);
  for (size_t i = 0; i < elements; ++i) {
    const auto refuse = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(batch, i * batch.examples / elements), ": ", what));
    };
    if (column.text) {
      if (!absl::SimpleAtoi(column.strings[i], &value.integers[i])) {
        return refuse(absl::StrCat("\"", column.strings[i], "\" is no whole number"));
      }
      continue;
    }
    const float number = column.values[i];
    if (number != std::trunc(number)) return refuse(absl::StrCat(number, " is no whole number"));
  }
  if (!column.text) {
    const std::optional<size_t> bad = WholeNumbers(column, value.integers);
    if (bad.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          Where(batch, *bad * batch.examples / elements), ": ", column.values[*bad],
          " is beyond 2^24, where float32 does not tell whole numbers apart; give the column as "
          "integers or as strings"));
    }
  }
  value.view.integers = value.integers;
  return absl::OkStatus();
}

// Refuses unsigned numbers beyond int64, which would turn negative.
absl::Status Preprocessor::CheckSigned(const Batch& batch, std::optional<size_t> input) {
  if (!input.has_value()) return absl::OkStatus();
  const Column& column = batch.inputs[*input];
  const ExactInteger* const beyond = FirstBeyondInt64(column);
  if (beyond == nullptr) return absl::OkStatus();
  const size_t example = beyond->element * batch.examples / column.values.size();
  return absl::InvalidArgumentError(absl::StrCat(
      Where(batch, example), ": ", static_cast<uint64_t>(beyond->value),
      " is beyond int64, which is what preprocessing layers take; give it as a string"));
}

absl::Status Preprocessor::Run(const Batch& batch, Batch& ready) try {
  if (batch.examples == 0) return absl::InvalidArgumentError("the batch has no examples");
  if (batch.inputs.size() != columns_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", batch.inputs.size(),
                                                   " inputs, the model was built for ",
                                                   columns_.size()));
  }
  const RawPlace place = [&](size_t element, size_t elements) {
    return Where(batch, element * batch.examples / elements);
  };
  std::vector<RawView> views;
  for (Value& value : values_) {
    if (value.column.has_value()) {
      RETURN_IF_ERROR(Bind(batch, value));
      continue;
    }
    views.clear();
    for (const size_t input : value.inputs) {
      RETURN_IF_ERROR(CheckSigned(batch, values_[input].column));
      views.push_back(values_[input].view);
    }
    const absl::Status fits = CheckElements({int64_t{batch.examples}, Elements(value.type.shape)});
    if (!fits.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          LayerTitle(value.step->class_name(), value.step->name()), ": ", fits.message()));
    }
    RETURN_IF_ERROR(value.step->Run(views, batch.examples, place, value.computed));
    value.view = {.kind = value.type.kind,
                  .floats = value.computed.floats,
                  .integers = value.computed.integers,
                  .strings = {}};
  }
  ready.examples = batch.examples;
  ready.targets = batch.targets;
  ready.weights = batch.weights;
  ready.source = batch.source;
  ready.records = batch.records;
  ready.inputs.resize(exports_.size());
  for (size_t i = 0; i < exports_.size(); ++i) {
    const Value& value = values_[exports_[i]];
    Column& column = ready.inputs[i];
    column.shape.assign(value.type.shape.begin(), value.type.shape.end());
    if (value.column.has_value()) {
      column = batch.inputs[*value.column];
    } else if (value.type.kind == RawKind::kInteger) {
      column.values.assign(value.view.integers.begin(), value.view.integers.end());
      column.exact.clear();
      for (size_t k = 0; k < value.view.integers.size(); ++k) {
        KeepExact(k, value.view.integers[k], column.exact);
      }
    } else {
      column.values.assign(value.view.floats.begin(), value.view.floats.end());
    }
  }
  return absl::OkStatus();
} catch (const std::bad_alloc&) {  // sizes come from the model file
  return absl::ResourceExhaustedError(absl::StrCat(
      "there is no memory for what preprocessing layers make of ", batch.examples, " examples"));
}

void Preprocessor::CountUnknown(LookupCounts& counts) const {
  for (const Value& value : values_) {
    if (value.step == nullptr || value.inputs.size() != 1) continue;
    const RawView& input = values_[value.inputs[0]].view;
    value.step->CountUnknown(input,
                             counts[LayerTitle(value.step->class_name(), value.step->name())]);
  }
}

}  // namespace paracord
