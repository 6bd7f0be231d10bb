// Reads the calls of a Functional model's layers from the three dialects of Keras' files into a
// common form. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// A reference to a tensor, Keras' keras_history: layer, call number of the layer, and output number
// of the call.
struct TensorRef {
  std::string layer;
  size_t call = 0;
  size_t output = 0;
  std::optional<NumberArray> constant;  // set: these numbers, and no layer's output
  std::optional<size_t> node;           // the node made for `constant`
};

// An entry of a layer's inbound_nodes.
struct CallSpec {
  std::vector<TensorRef> inputs;
  std::vector<std::pair<std::string, TensorRef>> masks;  // named as in NodeSpec
  bool own_masks = false;
  nlohmann::json args = nlohmann::json::array();     // with kTensorKey for inputs
  nlohmann::json kwargs = nlohmann::json::object();  // without tensors
  CallMode mode = CallMode::kOfRun;  // another in Keras 2 only: in Keras 3 the run's counts
};

// Reads an entry of inbound_nodes, of any dialect. The error does not name the layer.
absl::StatusOr<CallSpec> ReadCall(const nlohmann::json& inbound_node);

// Returns the name of a set argument of the call that is not a tensor; "" without one.
std::string OtherArgument(const NodeSpec& call);

// Adds a node to the model for each constant in a call of `layer`.
void AddConstants(const std::string& layer, CallSpec& call, ModelSpec& model);

// Returns the input nodes of an inner model called by `call`: the call's inputs, with the masks
// named in the call. The error does not name the layer.
absl::StatusOr<std::vector<size_t>> InputsOfModel(const std::string& layer, const NodeSpec& call,
                                                  ModelSpec& model);

struct NamedRef {
  std::string key;  // key of a dict
  TensorRef tensor;
};
// Reads `input_layers` or `output_layers` in any form.
absl::StatusOr<std::vector<NamedRef>> ReadEndpoints(const nlohmann::json& value);

// Returns Keras 3's name ("Multiply", "GetItem") of a Keras 2 operation ("math.multiply" of a
// TFOpLambda, a SlicingOpLambda); "" if unknown.
std::string OperationOfKeras2(const std::string& function);
std::string SupportedOfKeras2();  // "math.add, ..."

}  // namespace paracord
