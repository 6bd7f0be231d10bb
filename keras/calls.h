// Reads the calls of the layers of a Functional model, which the three dialects of Keras' files
// write differently, into one form. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// A reference to a tensor, Keras' keras_history: a layer, the number of its call, and the number of
// that call's output.
struct TensorRef {
  std::string layer;
  size_t call = 0;
  size_t output = 0;
  std::optional<NumberArray> constant;  // set: these numbers, and no layer's output
  std::optional<size_t> node;           // the node that they have become
};

// One entry of a layer's inbound_nodes.
struct CallSpec {
  std::vector<TensorRef> inputs;
  std::vector<std::pair<std::string, TensorRef>> masks;  // as in NodeSpec
  bool own_masks = false;
  nlohmann::json args = nlohmann::json::array();     // with kTensorKey for inputs
  nlohmann::json kwargs = nlohmann::json::object();  // without tensors
  CallMode mode = CallMode::kOfRun;  // another in Keras 2 only: in Keras 3 the run's counts
};

// Reads one entry of inbound_nodes, of any dialect. The error does not name the layer.
absl::StatusOr<CallSpec> ReadCall(const nlohmann::json& inbound_node);

// Returns the name of an argument of the call that is set and no tensor; "" if there is none.
std::string OtherArgument(const NodeSpec& call);

// Adds a node to the model for each constant in a call of `layer`.
void AddConstants(const std::string& layer, CallSpec& call, ModelSpec& model);

// Returns the nodes that an inner model called by `call` has as inputs: the call's inputs, with the
// masks that the call names. The error does not name the layer.
absl::StatusOr<std::vector<size_t>> InputsOfModel(const std::string& layer, const NodeSpec& call,
                                                  ModelSpec& model);

struct NamedRef {
  std::string key;  // of a dict
  TensorRef tensor;
};
// Reads `input_layers` or `output_layers`, in any of their forms.
absl::StatusOr<std::vector<NamedRef>> ReadEndpoints(const nlohmann::json& value);

// Returns Keras 3's name ("Multiply", "GetItem") of an operation of Keras 2 ("math.multiply" of a
// TFOpLambda, a SlicingOpLambda); "" if it is not known.
std::string OperationOfKeras2(const std::string& function);
std::string SupportedOfKeras2();  // "math.add, ..."

}  // namespace paracord
