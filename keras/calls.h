// Reads the calls of a Functional model's layers into one form, CallSpec, from the dialects in
// which Keras 3, Keras 2 and tf_keras write model files. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// A reference to a tensor, as in Keras' keras_history: a layer's name, the number of a call of the
// layer, and the number of an output of that call.
struct TensorRef {
  std::string layer;
  size_t call = 0;
  size_t output = 0;
  // Set: the tensor is this constant, not an output of a layer. AddConstants moves the constant
  // into a node of the model, and sets `node` to the node's index.
  std::optional<NumberArray> constant;
  std::optional<size_t> node;
};

// A call of a layer: an entry of the key inbound_nodes of the layer.
struct CallSpec {
  std::vector<TensorRef> inputs;
  std::vector<std::pair<std::string, TensorRef>> masks;  // names are those of NodeSpec::masks
  bool own_masks = false;                                // NodeSpec::own_masks
  // The positional arguments. {kTensorKey: i} stands for inputs[i].
  nlohmann::json args = nlohmann::json::array();
  // The named arguments, without inputs and masks. In a Keras 2 file they may contain
  // {kTensorKey: i}, too.
  nlohmann::json kwargs = nlohmann::json::object();
  // From the argument `training` in a Keras 2 file; in a Keras 3 file that argument is ignored.
  CallMode mode = CallMode::kOfRun;
};

// Reads an entry of inbound_nodes, of any dialect. INVALID_ARGUMENT does not name the layer.
absl::StatusOr<CallSpec> ReadCall(const nlohmann::json& inbound_node);

// Returns the name of one argument that is no input tensor: the name of a mask, "args" for a
// positional argument that is not null, or the name of a named argument that is not null. "" if the
// call has no such argument.
std::string OtherArgument(const NodeSpec& call);

// Adds a node to the model for each constant among the inputs and masks of `call`, a call of the
// layer named `layer`.
void AddConstants(const std::string& layer, CallSpec& call, ModelSpec& model);

// Returns the nodes that are the inputs of an inner model in `call`, a call of that model. Where
// the call gives an input another mask, or takes its mask away, a new node stands for the input
// (NodeSpec::hands_mask). The new nodes' layers are named `layer`. INVALID_ARGUMENT does not name
// the layer.
absl::StatusOr<std::vector<size_t>> InputsOfModel(const std::string& layer, const NodeSpec& call,
                                                  ModelSpec& model);

struct NamedRef {
  std::string key;  // the key in a dict of inputs or outputs; "" without a dict
  TensorRef tensor;
};
// Reads a model's `input_layers` or `output_layers`: one reference, or a list or dict of
// references.
absl::StatusOr<std::vector<NamedRef>> ReadEndpoints(const nlohmann::json& value);

// Returns Keras 3's name, such as "Multiply", of a function that a TFOpLambda or SlicingOpLambda of
// Keras 2 calls, such as "math.multiply"; "" if the function is not supported.
std::string OperationOfKeras2(const std::string& function);
// Returns the names of all functions that OperationOfKeras2 supports, joined by commas, for errors.
std::string SupportedOfKeras2();

}  // namespace paracord
