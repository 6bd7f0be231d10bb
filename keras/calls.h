// The calls of the layers of a Functional model, as the three dialects of Keras' files write them,
// brought into one form. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// keras_history: [layer, which call of it, which output].
struct TensorRef {
  std::string layer;
  size_t call = 0;
  size_t output = 0;
  std::optional<NumberArray> constant;  // set: these numbers, and no layer's output
  std::optional<size_t> node;           // the node that they have become
};

// One entry of inbound_nodes.
struct CallSpec {
  std::vector<TensorRef> inputs;
  std::vector<std::pair<std::string, TensorRef>> masks;  // as in NodeSpec
  bool own_masks = false;
  nlohmann::json args = nlohmann::json::array();     // with kTensorKey for inputs
  nlohmann::json kwargs = nlohmann::json::object();  // without tensors
  CallMode mode = CallMode::kOfRun;  // another in Keras 2 only: in Keras 3 the run's counts
};

// Of any dialect. The error does not name the layer.
absl::StatusOr<CallSpec> ReadCall(const nlohmann::json& inbound_node);

// The name of an argument that is no data; "" if there is none that says anything.
std::string OtherArgument(const NodeSpec& call);

// Gives the model a node for each constant of a call of `layer`.
void AddConstants(const std::string& layer, CallSpec& call, ModelSpec& model);

// What a model called within `model` has as inputs: those of the call, with the masks that it
// names. The error does not name the layer.
absl::StatusOr<std::vector<size_t>> InputsOfModel(const std::string& layer, const NodeSpec& call,
                                                  ModelSpec& model);

struct NamedRef {
  std::string key;  // of a dict
  TensorRef tensor;
};
// `input_layers` or `output_layers`, in any of their shapes.
absl::StatusOr<std::vector<NamedRef>> ReadEndpoints(const nlohmann::json& value);

// An operation of Keras 2 ("math.multiply" of a TFOpLambda, a SlicingOpLambda) as Keras 3 calls it
// ("Multiply", "GetItem"); "" if it is not known.
std::string OperationOfKeras2(const std::string& function);
std::string SupportedOfKeras2();  // "math.add, ..."

}  // namespace paracord
