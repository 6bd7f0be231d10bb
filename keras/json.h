// Reads a Keras model file (model.to_json() of Keras 3, of Keras 2, of tf_keras) into a graph of
// layer calls: Sequential and Functional models, nested models (flattened: names of inner layers
// get the inner model's name as a prefix), shared layers, operations on tensors. Knows the dialects
// of the files, but not the meaning of layers: layers.cc reads the configs, graph.h builds the
// layers. Pure.
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
  bool operation = false;  // true: "Multiply" means x * y, not the layer Multiply()
  bool unusable = false;   // the layer cannot be read; ModelSpec::problems says why
};

// Whether calls of the layer look up rows by ids, which are their first input.
inline bool LooksUpIds(const LayerSpec& layer) {
  return !layer.operation && (layer.class_name == "Embedding" || layer.class_name == "EmbedReduce");
}

// A call of a layer on the outputs of earlier nodes.
struct NodeSpec {
  size_t layer = 0;
  std::vector<size_t> inputs;  // nodes; empty for an input of the model and for a constant
  // Above 0: the node is no call, but output number `output` of the call that is node inputs[0].
  size_t output = 0;
  // The nodes of masks named in the call, by argument: "mask", "query_mask", ... If the argument
  // "mask" is a list, entry 0 is "mask", and entry i is "mask/i".
  std::map<std::string, size_t> masks;
  bool own_masks = false;  // true: `masks` replace the inputs' own masks
  nlohmann::json args;     // a list of positional arguments; {kTensorKey: i} stands for input i
  nlohmann::json kwargs;   // named arguments
  CallMode mode = CallMode::kOfRun;
  // The place in Keras' order of calls: first the places of the calls of the enclosing models,
  // outermost first, then the place of the call itself.
  std::vector<size_t> turn;
  std::optional<NumberArray> constant;  // set: the node is a constant without a batch, not a call
  bool hands_mask = false;              // true: the node is inputs[0] with another mask, not a call
  bool unknown = false;                 // true: strings, or a preprocessing layer not taken out
};

// Whether the node is an input of the model.
inline bool IsInput(const NodeSpec& node) {
  return node.inputs.empty() && !node.constant.has_value();
}

// An input or output of the model. It has two names if the model was made from a dict.
struct Endpoint {
  size_t node = 0;
  std::string layer;  // the layer's name; numbered from "NAME_1" on for further outputs of a layer
  std::string key;    // the key in the dict; empty: none
  bool Is(const std::string& name) const { return name == layer || (!key.empty() && name == key); }
  const std::string& name() const { return key.empty() ? layer : key; }
};

struct ModelSpec {
  std::vector<LayerSpec> layers;
  std::vector<NodeSpec> nodes;  // a node comes after its inputs
  std::vector<Endpoint> inputs;
  std::vector<Endpoint> outputs;
  bool keras2 = false;
  bool frozen = false;                // true: no variable gets gradients, whatever the layers say
  bool tf32 = false;                  // true: products of float32 layers may use Operands::kTf32
  std::vector<std::string> problems;  // lines about layers that cannot be used
};

// Reads a model file. A problem names the layer, if any, and what is supported. INVALID_ARGUMENT,
// with all problems, if no usable model remains.
absl::StatusOr<ModelSpec> ReadKerasModel(const nlohmann::json& model);

}  // namespace paracord
