#include "keras/json.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "config/keras_class.h"
#include "keras/calls.h"
#include "keras/early_keras2.h"
#include "keras/layer_list.h"
#include "keras/ragged.h"
#include "keras/results.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kNodesMax = 100'000;  // includes calls of models, which add no node
constexpr int kDepthMax = 16;          // depth of nested models
// Limit of values read in inner models, counted again for each call.
constexpr size_t kValuesMax = 50'000'000;

// Measures the work of reading a value: numbers, strings by length, lists and objects.
size_t ValuesIn(const json& value) {
  size_t count = value.is_string() ? 1 + value.get_ref<const std::string&>().size() / 16 : 1;
  if (value.is_structured()) {
    for (const json& each : value) count += ValuesIn(each);
  }
  return count;
}

absl::Status AtLayer(const LayerSpec& layer, const absl::Status& status) {
  return InvalidModel(absl::StrCat("layer \"", layer.name, "\" (", layer.class_name,
                                   "): ", std::string(status.message())));
}

// Whether a call's only argument is a dict of tensors.
bool IsDict(const json& args) {
  return args.is_array() && args.size() == 1 && args[0].is_object() &&
         !args[0].contains(kTensorKey);
}

// Orders the inputs of a call with a dict of tensors, keyed by the inner model's input keys or
// names.
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

// Adds nested models to a ModelSpec.
class Reader {
 public:
  Reader(bool keras2, bool frozen) {
    spec_.keras2 = keras2;
    spec_.frozen = frozen;
  }

  using Nodes = std::vector<size_t>;
  // `inputs` is null for the outermost model, whose inputs become nodes of their own.
  absl::StatusOr<Nodes> Add(const std::string& class_name, const json& config,
                            const std::string& prefix, const Nodes* inputs);
  ModelSpec Take() { return std::move(spec_); }
  // The problems found before Add failed.
  std::vector<std::string>& problems() { return spec_.problems; }

 private:
  absl::StatusOr<Nodes> AddSequential(const json& config, const std::string& prefix,
                                      const Nodes* inputs);
  // Sets the results of the model's InputLayers: inputs of the whole model if `inputs` is null,
  // otherwise the inner model's arguments.
  absl::Status AddInputs(const std::vector<Listed>& layers, const std::vector<NamedRef>& ins,
                         const Nodes* inputs, CallResults& results);
  absl::StatusOr<Nodes> AddFunctional(const json& config, const std::string& prefix,
                                      const Nodes* inputs);
  // `outputs` has, by layer, how many outputs are used.
  absl::StatusOr<std::vector<PendingCall>> AddCalls(const std::vector<Listed>& layers,
                                                    const std::string& prefix,
                                                    std::vector<PendingCall> calls,
                                                    const std::map<std::string, size_t>& outputs,
                                                    CallResults& results);
  // A layer, unless a model, becomes `outputs` nodes.
  absl::StatusOr<Nodes> AddCall(const Listed& layer, const std::string& prefix, NodeSpec node,
                                size_t outputs);
  size_t AddInput(LayerSpec layer);

  ModelSpec spec_;
  std::map<std::string, size_t> layers_;  // keyed by full name
  CallMode mode_ = CallMode::kOfRun;      // mode of the model's call
  std::vector<size_t> turn_;              // turn of the model's call, see NodeSpec
  std::vector<bool> steps_of_;            // the TimeDistributed around, and whether each trains
  int depth_ = 0;
  size_t model_calls_ = 0;
  size_t more_inputs_ = 0;  // inputs of calls beside their first
  size_t values_ = 0;
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
  if (node.mode == CallMode::kOfRun) node.mode = mode_;
  const bool is_model = IsModel(layer.spec.class_name) && !layer.spec.unusable;
  more_inputs_ += node.inputs.size() - 1;
  if (spec_.nodes.size() + model_calls_ + more_inputs_ >= kNodesMax) {
    return InvalidModel(absl::StrCat("has more than ", kNodesMax,
                                     " calls of layers and models, or inputs of these"));
  }
  if (IsDict(node.args)) {
    const absl::Status ordered = is_model ? OrderInputs(layer.spec.config, node)
                                          : absl::InvalidArgumentError("is called with a dict");
    if (!ordered.ok()) return AtLayer(layer.spec, ordered);
  }
  if (const auto model = ModelOfSteps(layer.spec, spec_.keras2)) {
    steps_of_.push_back(layer.spec.config.value("trainable", json()) != false);
    auto nodes = AddCall(*model, prefix, std::move(node), outputs);
    steps_of_.pop_back();
    return nodes;
  }
  if (is_model) {
    ++model_calls_;
    const absl::StatusOr<Nodes> inputs = InputsOfModel(name, node, spec_);
    if (!inputs.ok()) return AtLayer(layer.spec, inputs.status());
    const CallMode outside = std::exchange(mode_, node.mode);
    auto nodes = Add(layer.spec.class_name, layer.spec.config, name + "/", &*inputs);
    mode_ = outside;
    return nodes;
  }
  const auto [found, is_new] = layers_.emplace(name, spec_.layers.size());
  if (is_new) {
    spec_.layers.push_back(layer.spec);
    spec_.layers.back().name = name;
    for (size_t i = steps_of_.size(); i-- > 0;) {
      const absl::Status done = DistributeOverSteps(steps_of_[i], spec_.layers.back());
      if (!done.ok()) return AtLayer(layer.spec, done);
    }
  }
  node.layer = found->second;
  node.turn = turn_;
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
    // A Sequential may omit its InputLayer. Keras 2 then writes the input's shape into the first
    // layer; a model never built has no shape, and takes the data's.
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
      return InvalidModel(
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

// Counts the calls of each layer; an input of the model counts as a call.
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

// In Keras 3 only references in a model's outputs count the calls of an inner Functional from 1.
void CountOutputsFromZero(const std::vector<Listed>& layers, std::vector<NamedRef>& outputs) {
  for (NamedRef& out : outputs) {
    const bool counts = std::any_of(layers.begin(), layers.end(), [&](const Listed& layer) {
      return layer.spec.name == out.tensor.layer && IsModel(layer.spec.class_name) &&
             layer.spec.class_name != "Sequential";
    });
    if (counts && out.tensor.call > 0) --out.tensor.call;
  }
}

// Returns the node of a call with all inputs present.
NodeSpec NodeOf(const CallSpec& call, const CallResults& results) {
  NodeSpec node;
  for (const TensorRef& ref : call.inputs) node.inputs.push_back(*results.Find(ref));
  for (const auto& [name, ref] : call.masks) node.masks[name] = *results.Find(ref);
  node.own_masks = call.own_masks;
  node.args = call.args;
  node.kwargs = call.kwargs;
  node.mode = call.mode;
  return node;
}

// Adds calls in list order, in rounds: each round adds the calls with all inputs present. Returns
// the calls that wait for each other forever.
absl::StatusOr<std::vector<PendingCall>> Reader::AddCalls(
    const std::vector<Listed>& layers, const std::string& prefix, std::vector<PendingCall> calls,
    const std::map<std::string, size_t>& outputs, CallResults& results) {
  std::set<std::pair<size_t, size_t>> turns;  // rounds, and places in the list
  for (size_t i = 0; i < calls.size(); ++i) turns.insert(turns.end(), {0, i});
  std::map<CallResults::Call, std::set<size_t>> waiting;
  while (!turns.empty()) {
    const auto [round, at] = *turns.begin();
    turns.erase(turns.begin());
    const PendingCall& pending = calls[at];
    if (const TensorRef* missing = results.FirstMissing(pending.call)) {
      waiting[{missing->layer, missing->call}].insert(at);
      continue;
    }
    const auto count = outputs.find(pending.name);
    turn_.push_back(pending.turn);
    ASSIGN_OR_RETURN(Nodes made,
                     AddCall(layers[pending.layer], prefix, NodeOf(pending.call, results),
                             count == outputs.end() ? 1 : count->second));
    turn_.pop_back();
    results.Set(pending.name, pending.index, std::move(made));
    const auto called = waiting.extract(results.Written(pending.name, pending.index));
    if (called.empty()) continue;
    for (const size_t other : called.mapped()) turns.emplace(other > at ? round : round + 1, other);
  }
  std::set<size_t> places;
  for (const auto& [call, by] : waiting) places.insert(by.begin(), by.end());
  std::vector<PendingCall> left;
  for (const size_t at : places) left.push_back(std::move(calls[at]));
  return left;
}

absl::Status Reader::AddInputs(const std::vector<Listed>& layers, const std::vector<NamedRef>& ins,
                               const Nodes* inputs, CallResults& results) {
  for (size_t i = 0; i < ins.size(); ++i) {
    const auto layer = std::find_if(layers.begin(), layers.end(), [&](const Listed& l) {
      return l.spec.name == ins[i].tensor.layer && l.spec.class_name == kInputLayer;
    });
    if (layer == layers.end()) {
      return InvalidModel(absl::StrCat("config.input_layers names \"", ins[i].tensor.layer,
                                       "\", which is no InputLayer of the model"));
    }
    const size_t node = inputs == nullptr ? AddInput(layer->spec) : (*inputs)[i];
    if (inputs == nullptr) spec_.inputs.push_back({node, layer->spec.name, ins[i].key});
    results.Set(ins[i].tensor.layer, 0, {node});
  }
  return absl::OkStatus();
}

absl::StatusOr<Reader::Nodes> Reader::AddFunctional(const json& config, const std::string& prefix,
                                                    const Nodes* inputs) {
  ASSIGN_OR_RETURN(const std::vector<Listed> layers, ReadLayers(config, spec_.problems));
  const auto endpoints = [&](const char* key) -> absl::StatusOr<std::vector<NamedRef>> {
    const auto value = config.find(key);
    auto refs = ReadEndpoints(value == config.end() ? json() : *value);
    if (!refs.ok()) {
      return InvalidModel(absl::StrCat("config.", key, " ", std::string(refs.status().message())));
    }
    return refs;
  };
  ASSIGN_OR_RETURN(const std::vector<NamedRef> ins, endpoints("input_layers"));
  ASSIGN_OR_RETURN(std::vector<NamedRef> outs, endpoints("output_layers"));
  if (inputs != nullptr && inputs->size() != ins.size()) {
    return InvalidModel(absl::StrCat("the inner model \"", prefix, "\" takes ", ins.size(),
                                     " inputs and is given ", inputs->size()));
  }
  CallResults results;
  RETURN_IF_ERROR(AddInputs(layers, ins, inputs, results));
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
  const std::vector<size_t> turns = results.KerasTurns(calls, outs);
  for (size_t i = 0; i < calls.size(); ++i) calls[i].turn = turns[i];
  ASSIGN_OR_RETURN(calls, AddCalls(layers, prefix, std::move(calls), counts, results));
  if (!calls.empty()) {
    const auto [layer, why] = results.WhyStuck(calls, calls_of);
    return AtLayer(layers[layer].spec,
                   absl::InvalidArgumentError(absl::StrCat("key \"inbound_nodes\": ", why)));
  }
  Nodes outputs;
  std::set<std::string> taken;          // names of outputs
  std::map<std::string, size_t> again;  // keyed by layer: the number of its last output
  for (const NamedRef& out : outs) {
    const size_t* node = results.Find(out.tensor);
    if (node == nullptr) {
      return InvalidModel(absl::StrCat("config.output_layers: \"", out.tensor.layer,
                                       "\" has no call ", out.tensor.call, " with an output ",
                                       out.tensor.output));
    }
    outputs.push_back(*node);
    if (inputs != nullptr) continue;
    std::string name = out.tensor.layer;
    while (!taken.insert(name).second) {
      name = absl::StrCat(out.tensor.layer, "_", ++again[out.tensor.layer]);
    }
    spec_.outputs.push_back({*node, name, out.key});
  }
  return outputs;
}

absl::StatusOr<Reader::Nodes> Reader::Add(const std::string& class_name, const json& config,
                                          const std::string& prefix, const Nodes* inputs) {
  if (++depth_ > kDepthMax) {
    return InvalidModel(absl::StrCat("has models inside models more than ", kDepthMax, " deep"));
  }
  if (inputs != nullptr) values_ += ValuesIn(config);
  if (values_ > kValuesMax) {
    return InvalidModel(absl::StrCat("calls models inside models that have more than ", kValuesMax,
                                     " values together"));
  }
  auto nodes = class_name == "Sequential" ? AddSequential(config, prefix, inputs)
                                          : AddFunctional(config, prefix, inputs);
  --depth_;
  return nodes;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadKerasModel(const json& model) {
  if (!model.is_object())
    return InvalidModel("must be a JSON object, as model.to_json() writes it");
  if (const std::optional<json> later = FromEarlyKeras2(model)) return ReadKerasModel(*later);
  const std::string class_name = KerasClass(model);
  if (!IsModel(class_name)) {
    return InvalidModel(absl::StrCat("class_name \"", class_name,
                                     "\" is not supported; supported: Sequential, Functional"));
  }
  const auto config = model.find("config");
  if (config == model.end() || !config->is_object()) return InvalidModel("has no config object");
  const bool keras2 = model.contains("keras_version");  // Keras 3 writes no version
  // `trainable` of the outermost model overrides its layers only in a Functional of Keras 3; an
  // inner model's never does.
  const bool frozen =
      !keras2 && class_name != "Sequential" && config->value("trainable", json()) == false;
  Reader reader(keras2, frozen);
  const absl::Status added = reader.Add(class_name, *config, "", nullptr).status();
  if (added.ok()) {
    absl::StatusOr<ModelSpec> spec = reader.Take();
    if (spec.ok()) TakeRaggedInputs(*spec);
    return spec;
  }
  reader.problems().emplace_back(added.message());
  return absl::InvalidArgumentError(absl::StrJoin(reader.problems(), "\n"));
}

}  // namespace paracord
