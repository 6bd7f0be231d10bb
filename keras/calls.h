// Reads the calls of a Functional model's layers into a common form, from the dialects of Keras 3,
// Keras 2 and tf_keras. Pure.
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
  std::optional<NumberArray> constant;  // set: the tensor is this constant, not a layer's output
  std::optional<size_t> node;           // index of the node that AddConstants made for `constant`
};

// An entry of a layer's inbound_nodes.
struct CallSpec {
  std::vector<TensorRef> inputs;
  std::vector<std::pair<std::string, TensorRef>> masks;  // named like NodeSpec::masks
  bool own_masks = false;                                // see NodeSpec
  // The positional arguments. {kTensorKey: i} stands for input i.
  nlohmann::json args = nlohmann::json::array();
  // The other named arguments. In Keras 2 they may contain {kTensorKey: i}, too.
  nlohmann::json kwargs = nlohmann::json::object();
  // The argument `training` of a call in a Keras 2 file. Keras 3's is ignored.
  CallMode mode = CallMode::kOfRun;
};

// Reads an entry of inbound_nodes, of any dialect. INVALID_ARGUMENT does not name the layer.
absl::StatusOr<CallSpec> ReadCall(const nlohmann::json& inbound_node);

// Returns the name of an argument besides the call's input tensors: a mask, "args" for a positional
// argument, or a named argument other than null. "" if the call has none.
std::string OtherArgument(const NodeSpec& call);

// Adds a node to the model for each constant among the inputs and masks of the layer's call.
void AddConstants(const std::string& layer, CallSpec& call, ModelSpec& model);

// Returns the nodes that an inner model takes as its inputs when `call` calls it: the call's
// inputs, each behind a new node if the call has a mask for it. The new nodes' layers are named
// `layer`. INVALID_ARGUMENT does not name the layer.
absl::StatusOr<std::vector<size_t>> InputsOfModel(const std::string& layer, const NodeSpec& call,
                                                  ModelSpec& model);

struct NamedRef {
  std::string key;  // the key in a dict of inputs or outputs; "" without a dict
  TensorRef tensor;
};
// Reads a model's `input_layers` or `output_layers`: one reference, a list, or a dict of them.
absl::StatusOr<std::vector<NamedRef>> ReadEndpoints(const nlohmann::json& value);

// Returns Keras 3's name ("Multiply", "GetItem") of a Keras 2 function ("math.multiply" of a
// TFOpLambda, a SlicingOpLambda); "" if the function is not supported.
std::string OperationOfKeras2(const std::string& function);
// Returns the supported functions, for messages: "math.add, ...".
std::string SupportedOfKeras2();

}  // namespace paracord
