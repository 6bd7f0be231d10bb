#include "worker/model/keras_json.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "config/keras_class.h"
#include "worker/model/keras_calls.h"
#include "worker/model/keras_results.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kLayersMax = 10'000;
constexpr size_t kNodesMax = 100'000;
constexpr int kDepthMax = 16;  // of models inside models

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model: ", what));
}

// A member that must be a string; "" if it is not.
std::string StringAt(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

// "Conv2D" gives "conv2d", as Keras names a layer that has no name.
std::string DefaultName(const std::string& class_name, size_t index) {
  std::string name;
  for (const char c : class_name) {
    const bool upper = c >= 'A' && c <= 'Z';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return index == 0 ? name : absl::StrCat(name, "_", index);
}

bool IsModel(const std::string& class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

// A layer as its model's list has it.
struct Listed {
  LayerSpec spec;
  const json* whole = nullptr;
};

// An operation of Keras 3 has the module keras.src.ops.*; one of Keras 2 is a TFOpLambda.
absl::Status RecogniseOperation(const json& layer, LayerSpec& spec) {
  const std::string module = StringAt(layer, "module");
  if (module.starts_with("keras.src.ops") || module.starts_with("keras.ops")) {
    spec.operation = true;
  } else if (spec.class_name == "TFOpLambda" || spec.class_name == "SlicingOpLambda") {
    const std::string function = StringAt(spec.config, "function");
    const std::string operation = OperationOfKeras2(function);
    if (function == "__operators__.eq" || function == "__operators__.ne") {
      return Invalid(absl::StrCat("layer \"", spec.name, "\" (", spec.class_name,
                                  "): Keras 2 does not write what == and != compare with; use "
                                  "tf.math.equal or tf.math.not_equal in the model"));
    }
    if (operation.empty()) {
      return Invalid(absl::StrCat("layer \"", spec.name, "\" (", spec.class_name, "): function \"",
                                  function,
                                  "\" is not supported; supported: ", SupportedOfKeras2()));
    }
    spec.class_name = operation;
    spec.operation = true;
    spec.config = json::object();
  }
  return absl::OkStatus();
}

// Fills `spec` as far as it goes.
absl::Status ReadLayer(const json& layer, size_t index, const std::set<std::string>& taken,
                       LayerSpec& spec) {
  const std::string place = absl::StrCat("layers[", index, "]");
  spec.config = json::object();
  spec.name = place;
  if (!layer.is_object()) return Invalid(absl::StrCat(place, " must be an object"));
  const auto config = layer.find("config");
  const bool has_config = config != layer.end() && config->is_object();
  std::string name = StringAt(layer, "name");  // Functional
  if (name.empty() && has_config) name = StringAt(*config, "name");
  if (!name.empty() && taken.count(name) == 0) spec.name = name;
  spec.class_name = KerasClass(layer);
  if (spec.class_name.empty()) return Invalid(absl::StrCat(place, " has no class_name"));
  if (!has_config) {
    return Invalid(absl::StrCat(place, " (", spec.class_name, ") has no config object"));
  }
  spec.config = *config;
  if (name.empty()) spec.name.clear();
  for (size_t i = 0; spec.name.empty(); ++i) {  // written by hand
    const std::string free = DefaultName(spec.class_name, i);
    if (taken.count(free) == 0) spec.name = free;
  }
  // Names become those of variables, and of tensors in files.
  if (spec.name.find_first_of("\n\r\t\"") != std::string::npos || spec.name.size() > 1024) {
    return Invalid(absl::StrCat(place, " (", spec.class_name, ") has an unusable name"));
  }
  if (!name.empty() && taken.count(name) != 0) {
    return Invalid(absl::StrCat("two layers have the name \"", name, "\""));
  }
  return RecogniseOperation(layer, spec);
}

absl::StatusOr<std::vector<Listed>> ReadLayers(const json& config,
                                               std::vector<std::string>& problems) {
  const auto layers = config.find("layers");
  if (layers == config.end() || !layers->is_array() || layers->empty()) {
    return Invalid("config.layers must be a list of layers");
  }
  if (layers->size() > kLayersMax)
    return Invalid(absl::StrCat("has more than ", kLayersMax, " layers"));
  std::vector<Listed> read;
  std::set<std::string> taken;
  for (size_t i = 0; i < layers->size(); ++i) {
    Listed layer{{}, &(*layers)[i]};
    const absl::Status status = ReadLayer(*layer.whole, i, taken, layer.spec);
    if (!status.ok()) {
      layer.spec.unusable = true;
      const std::string problem(status.message());
      const bool known = std::find(problems.begin(), problems.end(), problem) != problems.end();
      if (!known) problems.push_back(problem);  // an inner model may be read twice
    }
    taken.insert(layer.spec.name);
    read.push_back(std::move(layer));
  }
  return read;
}

absl::Status AtLayer(const LayerSpec& layer, const absl::Status& status) {
  return Invalid(absl::StrCat("layer \"", layer.name, "\" (", layer.class_name,
                              "): ", std::string(status.message())));
}

// Of a call whose one argument is a dict of tensors.
bool IsDict(const json& args) {
  return args.is_array() && args.size() == 1 && args[0].is_object() &&
         !args[0].contains(kTensorKey);
}

// A dict of tensors has them by the keys, or the names, of the inner model's inputs.
absl::Status OrderInputs(const json& config, NodeSpec& node) {
  const auto value = config.find("input_layers");
  const auto inputs = ReadEndpoints(value == config.end() ? json() : *value);
  if (!inputs.ok()) return absl::InvalidArgumentError("is called with a dict");
  std::vector<size_t> ordered;
  for (const NamedRef& input : *inputs) {
    const std::string& key = input.key.empty() ? input.tensor.layer : input.key;
    const auto given = node.args[0].find(key);
    if (given == node.args[0].end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is called with a dict that has no \"", key, "\""));
    }
    ordered.push_back(node.inputs[(*given)[kTensorKey].get<size_t>()]);
  }
  node.inputs = std::move(ordered);
  return absl::OkStatus();
}

// Adds models to a ModelSpec, one inside the other.
class Reader {
 public:
  Reader(bool keras2, bool frozen) {
    spec_.keras2 = keras2;
    spec_.frozen = frozen;
  }

  using Nodes = std::vector<size_t>;
  // `inputs` null: the outermost model, whose inputs are nodes of their own.
  absl::StatusOr<Nodes> Add(const std::string& class_name, const json& config,
                            const std::string& prefix, const Nodes* inputs);
  ModelSpec Take() { return std::move(spec_); }
  // What was found on the way to an error.
  std::vector<std::string>& problems() { return spec_.problems; }

 private:
  absl::StatusOr<Nodes> AddSequential(const json& config, const std::string& prefix,
                                      const Nodes* inputs);
  absl::StatusOr<Nodes> AddFunctional(const json& config, const std::string& prefix,
                                      const Nodes* inputs);
  // `outputs`: of a layer that is no model, so many nodes.
  absl::StatusOr<Nodes> AddCall(const Listed& layer, const std::string& prefix, NodeSpec node,
                                size_t outputs);
  size_t AddInput(LayerSpec layer);

  ModelSpec spec_;
  std::map<std::string, size_t> layers_;  // by full name
  std::optional<bool> training_;          // that the call of the model asks for
  int depth_ = 0;
};

size_t Reader::AddInput(LayerSpec layer) {
  spec_.layers.push_back(std::move(layer));
  NodeSpec node;
  node.layer = spec_.layers.size() - 1;
  spec_.nodes.push_back(std::move(node));
  return spec_.nodes.size() - 1;
}

absl::StatusOr<Reader::Nodes> Reader::AddCall(const Listed& layer, const std::string& prefix,
                                              NodeSpec node, size_t outputs) {
  const std::string name = prefix + layer.spec.name;
  if (!node.training.has_value()) node.training = training_;
  const bool is_model = IsModel(layer.spec.class_name) && !layer.spec.unusable;
  if (IsDict(node.args)) {
    const absl::Status ordered = is_model ? OrderInputs(layer.spec.config, node)
                                          : absl::InvalidArgumentError("is called with a dict");
    if (!ordered.ok()) return AtLayer(layer.spec, ordered);
  }
  if (is_model) {
    const absl::StatusOr<Nodes> inputs = InputsOfModel(name, node, spec_);
    if (!inputs.ok()) return AtLayer(layer.spec, inputs.status());
    const std::optional<bool> outside = std::exchange(training_, node.training);
    auto nodes = Add(layer.spec.class_name, layer.spec.config, name + "/", &*inputs);
    training_ = outside;
    return nodes;
  }
  if (spec_.nodes.size() >= kNodesMax) {
    return Invalid(absl::StrCat("has more than ", kNodesMax, " calls of layers"));
  }
  const auto [found, is_new] = layers_.emplace(name, spec_.layers.size());
  if (is_new) {
    spec_.layers.push_back(layer.spec);
    spec_.layers.back().name = name;
  }
  node.layer = found->second;
  Nodes nodes{spec_.nodes.size()};
  spec_.nodes.push_back(std::move(node));
  for (size_t i = 1; i < outputs; ++i) {
    NodeSpec part;
    part.layer = found->second;
    part.inputs = {nodes[0]};
    part.output = i;
    nodes.push_back(spec_.nodes.size());
    spec_.nodes.push_back(std::move(part));
  }
  return nodes;
}

absl::StatusOr<Reader::Nodes> Reader::AddSequential(const json& config, const std::string& prefix,
                                                    const Nodes* inputs) {
  ASSIGN_OR_RETURN(const std::vector<Listed> layers, ReadLayers(config, spec_.problems));
  const bool has_input = layers[0].spec.class_name == kInputLayer;
  Nodes now;
  if (inputs != nullptr) {
    now = *inputs;
  } else {
    // The InputLayer that a Sequential leaves out: Keras 2 writes its shape into the first layer,
    // and a model that was never built has none at all (the data has it).
    LayerSpec input{kInputLayer, "input", json::object()};
    const auto taken = [&](const std::string& name) {
      return std::any_of(layers.begin(), layers.end(),
                         [&](const Listed& layer) { return layer.spec.name == name; });
    };
    for (size_t i = 1; taken(input.name); ++i) input.name = absl::StrCat("input_", i);
    const json& first = layers[0].spec.config;
    if (has_input) {
      input = layers[0].spec;
    } else if (first.contains("batch_input_shape")) {
      input.config["batch_input_shape"] = first["batch_input_shape"];
    } else if (IsModel(layers[0].spec.class_name) && first.contains("layers") &&
               first["layers"].is_array() && !first["layers"].empty() &&
               first["layers"][0].is_object() && first["layers"][0].contains("config")) {
      const json& inner = first["layers"][0]["config"];
      for (const char* key : {"batch_shape", "batch_input_shape"}) {
        if (inner.is_object() && inner.contains(key)) input.config[key] = inner[key];
      }
    }
    now = {AddInput(input)};
    spec_.inputs.push_back({now[0], input.name, ""});
  }
  for (size_t i = has_input ? 1 : 0; i < layers.size(); ++i) {
    if (layers[i].spec.class_name == kInputLayer) {
      return Invalid(
          absl::StrCat("layer \"", layers[i].spec.name, "\" (InputLayer) must be the first"));
    }
    NodeSpec node;
    node.inputs = now;
    node.args = json::array({{{kTensorKey, 0}}});
    ASSIGN_OR_RETURN(now, AddCall(layers[i], prefix, std::move(node), 1));
  }
  if (inputs == nullptr) {
    spec_.outputs.push_back({now[0], layers.back().spec.name, ""});
  }
  return now;
}

absl::StatusOr<std::vector<PendingCall>> ReadCalls(const std::vector<Listed>& layers) {
  std::vector<PendingCall> calls;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto nodes = layers[i].whole->find("inbound_nodes");
    if (layers[i].spec.class_name == kInputLayer || nodes == layers[i].whole->end()) continue;
    if (!nodes->is_array()) {
      return AtLayer(layers[i].spec,
                     absl::InvalidArgumentError("key \"inbound_nodes\" must be a list"));
    }
    for (size_t n = 0; n < nodes->size(); ++n) {
      absl::StatusOr<CallSpec> call = ReadCall((*nodes)[n]);
      if (call.ok() && call->inputs.empty()) {
        call = absl::InvalidArgumentError("is called without a tensor");
      }
      if (!call.ok()) return AtLayer(layers[i].spec, call.status());
      calls.push_back({i, layers[i].spec.name, n, *std::move(call)});
    }
  }
  return calls;
}

// An input of the model counts as one call.
std::map<std::string, size_t> CallsByLayer(const std::vector<Listed>& layers,
                                           const std::vector<PendingCall>& calls) {
  std::map<std::string, size_t> by_layer;
  for (const Listed& layer : layers) {
    by_layer[layer.spec.name] = layer.spec.class_name == kInputLayer ? 1 : 0;
  }
  for (const PendingCall& pending : calls) ++by_layer[pending.name];
  return by_layer;
}

std::map<std::string, size_t> OfModels(const std::vector<Listed>& layers,
                                       std::map<std::string, size_t> calls_of) {
  for (const Listed& layer : layers) {
    if (!IsModel(layer.spec.class_name)) calls_of.erase(layer.spec.name);
  }
  return calls_of;
}

// In Keras 3 the outputs of a model, and they alone, count the calls of an inner Functional from 1.
void CountOutputsFromZero(const std::vector<Listed>& layers, std::vector<NamedRef>& outputs) {
  for (NamedRef& out : outputs) {
    const bool counts = std::any_of(layers.begin(), layers.end(), [&](const Listed& layer) {
      return layer.spec.name == out.tensor.layer && IsModel(layer.spec.class_name) &&
             layer.spec.class_name != "Sequential";
    });
    if (counts && out.tensor.call > 0) --out.tensor.call;
  }
}

// The node with its inputs, if all of these are there.
bool Resolve(const CallSpec& call, const CallResults& results, NodeSpec& node) {
  for (const TensorRef& ref : call.inputs) {
    const size_t* at = results.Find(ref);
    if (at == nullptr) return false;
    node.inputs.push_back(*at);
  }
  for (const auto& [name, ref] : call.masks) {
    const size_t* at = results.Find(ref);
    if (at == nullptr) return false;
    node.masks[name] = *at;
  }
  node.own_masks = call.own_masks;
  node.args = call.args;
  node.kwargs = call.kwargs;
  node.training = call.training;
  return true;
}

absl::StatusOr<Reader::Nodes> Reader::AddFunctional(const json& config, const std::string& prefix,
                                                    const Nodes* inputs) {
  ASSIGN_OR_RETURN(const std::vector<Listed> layers, ReadLayers(config, spec_.problems));
  const auto endpoints = [&](const char* key) -> absl::StatusOr<std::vector<NamedRef>> {
    const auto value = config.find(key);
    auto refs = ReadEndpoints(value == config.end() ? json() : *value);
    if (!refs.ok()) {
      return Invalid(absl::StrCat("config.", key, " ", std::string(refs.status().message())));
    }
    return refs;
  };
  ASSIGN_OR_RETURN(const std::vector<NamedRef> ins, endpoints("input_layers"));
  ASSIGN_OR_RETURN(std::vector<NamedRef> outs, endpoints("output_layers"));
  if (inputs != nullptr && inputs->size() != ins.size()) {
    return Invalid(absl::StrCat("the inner model \"", prefix, "\" takes ", ins.size(),
                                " inputs and is given ", inputs->size()));
  }
  CallResults results;
  for (size_t i = 0; i < ins.size(); ++i) {
    const auto layer = std::find_if(layers.begin(), layers.end(), [&](const Listed& l) {
      return l.spec.name == ins[i].tensor.layer && l.spec.class_name == kInputLayer;
    });
    if (layer == layers.end()) {
      return Invalid(absl::StrCat("config.input_layers names \"", ins[i].tensor.layer,
                                  "\", which is no InputLayer of the model"));
    }
    const size_t node = inputs == nullptr ? AddInput(layer->spec) : (*inputs)[i];
    if (inputs == nullptr) spec_.inputs.push_back({node, layer->spec.name, ins[i].key});
    results.Set(ins[i].tensor.layer, 0, {node});
  }
  ASSIGN_OR_RETURN(std::vector<PendingCall> calls, ReadCalls(layers));
  const std::map<std::string, size_t> calls_of = CallsByLayer(layers, calls);
  if (spec_.keras2) {
    results.FindCounting(OfModels(layers, calls_of), calls, outs);
  } else {
    CountOutputsFromZero(layers, outs);
  }
  for (PendingCall& pending : calls) {
    AddConstants(prefix + pending.name, pending.call, spec_);
  }
  const std::map<std::string, size_t> counts = CountOutputs(calls, outs);
  while (!calls.empty()) {
    std::vector<PendingCall> waiting;
    for (PendingCall& pending : calls) {
      NodeSpec node;
      if (!Resolve(pending.call, results, node)) {
        waiting.push_back(std::move(pending));
        continue;
      }
      const Listed& layer = layers[pending.layer];
      const auto count = counts.find(layer.spec.name);
      ASSIGN_OR_RETURN(Nodes made, AddCall(layer, prefix, std::move(node),
                                           count == counts.end() ? 1 : count->second));
      results.Set(layer.spec.name, pending.index, std::move(made));
    }
    if (waiting.size() == calls.size()) {
      const auto [layer, why] = results.WhyStuck(waiting, calls_of);
      return AtLayer(layers[layer].spec,
                     absl::InvalidArgumentError(absl::StrCat("key \"inbound_nodes\": ", why)));
    }
    calls = std::move(waiting);
  }
  Nodes outputs;
  for (const NamedRef& out : outs) {
    const size_t* node = results.Find(out.tensor);
    if (node == nullptr) {
      return Invalid(absl::StrCat("config.output_layers: \"", out.tensor.layer, "\" has no call ",
                                  out.tensor.call, " with an output ", out.tensor.output));
    }
    outputs.push_back(*node);
    if (inputs != nullptr) continue;
    std::string name = out.tensor.layer;
    const auto taken = [&](const std::string& n) {
      return std::any_of(spec_.outputs.begin(), spec_.outputs.end(),
                         [&](const Endpoint& e) { return e.layer == n; });
    };
    for (size_t i = 1; taken(name); ++i) name = absl::StrCat(out.tensor.layer, "_", i);
    spec_.outputs.push_back({*node, name, out.key});
  }
  return outputs;
}

absl::StatusOr<Reader::Nodes> Reader::Add(const std::string& class_name, const json& config,
                                          const std::string& prefix, const Nodes* inputs) {
  if (++depth_ > kDepthMax) {
    return Invalid(absl::StrCat("has models inside models more than ", kDepthMax, " deep"));
  }
  auto nodes = class_name == "Sequential" ? AddSequential(config, prefix, inputs)
                                          : AddFunctional(config, prefix, inputs);
  --depth_;
  return nodes;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadKerasModel(const json& model) {
  if (!model.is_object()) return Invalid("must be a JSON object, as model.to_json() writes it");
  const std::string class_name = KerasClass(model);
  if (!IsModel(class_name)) {
    return Invalid(absl::StrCat("class_name \"", class_name,
                                "\" is not supported; supported: Sequential, Functional"));
  }
  const auto config = model.find("config");
  if (config == model.end() || !config->is_object()) return Invalid("has no config object");
  const bool keras2 = model.contains("keras_version");  // Keras 3 writes no version
  // The outermost model's own say, which Keras 3 reads of a Functional, hides what its layers have
  // to train; an inner model's does not, and neither does any of Keras 2's.
  const bool frozen =
      !keras2 && class_name != "Sequential" && config->value("trainable", json()) == false;
  Reader reader(keras2, frozen);
  const absl::Status added = reader.Add(class_name, *config, "", nullptr).status();
  if (added.ok()) return reader.Take();
  reader.problems().emplace_back(added.message());
  return absl::InvalidArgumentError(absl::StrJoin(reader.problems(), "\n"));
}

}  // namespace paracord
