// Reads a Keras model, as model.to_json() of Keras 3, Keras 2 or tf_keras writes it, into a list of
// calls of layers: Sequential and Functional models, nested models (flattened: names of inner
// layers get the inner model's name as a prefix), shared layers, operations on tensors. Knows the
// dialects of the files, but not the meaning of layers: keras/layers reads the configs. Pure.
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
  bool operation = false;  // true: an operation on tensors, such as x * y, not a layer Multiply()
  bool unusable = false;   // true: the layer could not be read, and ModelSpec::problems says why
};

// Whether calls of the layer look up rows by the ids in their first input.
inline bool LooksUpIds(const LayerSpec& layer) {
  return !layer.operation && (layer.class_name == "Embedding" || layer.class_name == "EmbedReduce");
}

// A call of a layer on the outputs of earlier nodes.
struct NodeSpec {
  size_t layer = 0;  // index in ModelSpec::layers
  // Indices in ModelSpec::nodes; empty for an input of the model and for a constant.
  std::vector<size_t> inputs;
  // Above 0: the node is no call, but output number `output` of the call that is node inputs[0].
  size_t output = 0;
  // The nodes of masks given in the call, keyed by argument: "mask", "query_mask", ... If the
  // argument "mask" is a list, its entry 0 has the key "mask", and its entry i the key "mask/i".
  std::map<std::string, size_t> masks;
  bool own_masks = false;  // true: the call ignores masks that its inputs have from other calls
  nlohmann::json args;     // a list of positional arguments; {kTensorKey: i} stands for inputs[i]
  nlohmann::json kwargs;   // named arguments
  CallMode mode = CallMode::kOfRun;
  // The position in the order in which Keras computes calls: first the positions of the calls of
  // the enclosing models, outermost first, then the position of this call within its model.
  std::vector<size_t> turn;
  std::optional<NumberArray> constant;  // set: the node is this constant, not a call
  bool hands_mask = false;  // true: the node is no call, but inputs[0] with the mask of `masks`
  // True: an input of strings, or a preprocessing layer. The graph cannot compute the node.
  bool unknown = false;
};

// Whether the node is an input of the model.
inline bool IsInput(const NodeSpec& node) {
  return node.inputs.empty() && !node.constant.has_value();
}

// An input or output of the model, named by `layer` and, if the model was made from a dict, `key`.
struct Endpoint {
  size_t node = 0;
  // The name of the layer; for the second output of the model by that layer "NAME_1", and so on.
  std::string layer;
  std::string key;  // the key in the dict; empty without a dict
  bool Is(const std::string& name) const { return name == layer || (!key.empty() && name == key); }
  const std::string& name() const { return key.empty() ? layer : key; }
};

struct ModelSpec {
  std::vector<LayerSpec> layers;
  std::vector<NodeSpec> nodes;  // a node comes after its inputs
  std::vector<Endpoint> inputs;
  std::vector<Endpoint> outputs;
  bool keras2 = false;
  bool frozen = false;                // true: no variable gets gradients, even of trainable layers
  bool tf32 = false;                  // true: products of float32 layers may use Operands::kTf32
  std::vector<std::string> problems;  // lines about layers that cannot be used
};

// Reads the parsed text of a model file. A layer that cannot be read adds a line to
// ModelSpec::problems. INVALID_ARGUMENT, with all problems found, if the model cannot be read.
absl::StatusOr<ModelSpec> ReadKerasModel(const nlohmann::json& model);

}  // namespace paracord
