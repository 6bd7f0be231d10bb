// Reads a Keras model file (model.to_json() of Keras 3, of Keras 2, of tf_keras) into a graph of
// layer calls: Sequential and Functional models, models inside models (flattened: their layers get
// the inner model's name as a prefix), shared layers, operators on tensors. It knows the dialects,
// but not what a layer does: layers.cc reads the configs, graph.h builds the layers. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/layers/layer_config.h"
#include "keras/layers/number_array.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr const char* kInputLayer = "InputLayer";

struct LayerSpec {
  std::string class_name;
  std::string name;
  nlohmann::json config;
  bool operation = false;  // "Multiply" is x * y, not the layer Multiply()
  bool unusable = false;   // one of the model's problems says why
};

// Whether the layer looks up rows by the ids that are the first tensor of its calls.
inline bool LooksUpIds(const LayerSpec& layer) {
  return !layer.operation && (layer.class_name == "Embedding" || layer.class_name == "EmbedReduce");
}

// One call of a layer on the outputs of earlier nodes.
struct NodeSpec {
  size_t layer = 0;
  std::vector<size_t> inputs;  // nodes; empty for an InputLayer, and for a constant
  size_t output = 0;           // above 0: that output of the call `inputs[0]`, no call
  // The nodes of masks that the call names: "query_mask", ...; a list has "mask", "mask/1", ...
  std::map<std::string, size_t> masks;
  bool own_masks = false;  // the inputs have no masks but these
  nlohmann::json args;     // a list
  nlohmann::json kwargs;   // what else the call says
  CallMode mode = CallMode::kOfRun;
  std::vector<size_t> turn;  // when Keras makes the call: of the models around it, then its own
  std::optional<NumberArray> constant;  // set: no call, but these numbers, without a batch
  bool hands_mask = false;              // no call, but inputs[0] with its own mask
  bool unknown = false;  // what it gives cannot be said, because of a problem that is known
};

// Whether the node is an input of the model.
inline bool IsInput(const NodeSpec& node) {
  return node.inputs.empty() && !node.constant.has_value();
}

// An input or an output of the model, which has two names if the model was made from a dict.
struct Endpoint {
  size_t node = 0;
  std::string layer;  // its name; made unique with a number where two outputs are of one layer
  std::string key;    // empty: none
  bool Is(const std::string& name) const { return name == layer || (!key.empty() && name == key); }
  const std::string& name() const { return key.empty() ? layer : key; }
};

struct ModelSpec {
  std::vector<LayerSpec> layers;
  std::vector<NodeSpec> nodes;  // in an order in which every input comes before its use
  std::vector<Endpoint> inputs;
  std::vector<Endpoint> outputs;
  bool keras2 = false;
  bool frozen = false;  // none of its variables takes gradients, whatever its layers say
  bool tf32 = false;    // Operands::kTf32 for all of it
  std::vector<std::string> problems;  // of single layers; the rest is read nevertheless
};

// Reads a model file. Problems and errors name the layer, if there is one, and say what is
// supported. It fails only if no model is left to go on with.
absl::StatusOr<ModelSpec> ReadKerasModel(const nlohmann::json& model);

}  // namespace paracord
