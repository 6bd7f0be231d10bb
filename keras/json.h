// Reads a Keras model file (model.to_json() of Keras 3, of Keras 2, of tf_keras) into a graph of
// layer calls: Sequential and Functional models, nested models (flattened: their layers get the
// inner model's name as a prefix), shared layers, operators on tensors. Knows the dialects, but not
// the layers' meaning: layers.cc reads the configs, graph.h builds the layers. Pure.
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
  bool unusable = false;   // a problem of the model says why
};

// Whether the layer looks up rows by ids, the first tensor of its calls.
inline bool LooksUpIds(const LayerSpec& layer) {
  return !layer.operation && (layer.class_name == "Embedding" || layer.class_name == "EmbedReduce");
}

// A call of a layer on the outputs of earlier nodes.
struct NodeSpec {
  size_t layer = 0;
  std::vector<size_t> inputs;  // nodes; empty for an InputLayer, and for a constant
  size_t output = 0;           // above 0: output number of the call `inputs[0]`, not a call
  // The nodes of the masks named in the call: "query_mask", ...; a list has "mask", "mask/1", ...
  std::map<std::string, size_t> masks;
  bool own_masks = false;  // the masks above replace the inputs' own
  nlohmann::json args;     // a list
  nlohmann::json kwargs;   // named arguments
  CallMode mode = CallMode::kOfRun;
  std::vector<size_t> turn;  // Keras' order of calls: the enclosing models', then its own
  std::optional<NumberArray> constant;  // set: a constant without a batch, not a call
  bool hands_mask = false;              // not a call, but inputs[0] with another mask
  bool unknown = false;                 // result unknown because of a reported problem
};

// Whether the node is an input of the model.
inline bool IsInput(const NodeSpec& node) {
  return node.inputs.empty() && !node.constant.has_value();
}

// An input or output of the model, with two names if the model was made from a dict.
struct Endpoint {
  size_t node = 0;
  std::string layer;  // unique: numbered if a layer has two outputs
  std::string key;    // empty: none
  bool Is(const std::string& name) const { return name == layer || (!key.empty() && name == key); }
  const std::string& name() const { return key.empty() ? layer : key; }
};

struct ModelSpec {
  std::vector<LayerSpec> layers;
  std::vector<NodeSpec> nodes;  // sorted: inputs before their uses
  std::vector<Endpoint> inputs;
  std::vector<Endpoint> outputs;
  bool keras2 = false;
  bool frozen = false;                // no variable takes gradients, whatever the layers say
  bool tf32 = false;                  // Operands::kTf32 for the whole model
  std::vector<std::string> problems;  // problems of single layers; reading goes on
};

// Reads a model file. Problems and errors name the layer, if any, and the supported values. Fails
// only if no usable model remains.
absl::StatusOr<ModelSpec> ReadKerasModel(const nlohmann::json& model);

}  // namespace paracord
