// Reads the list of layers in a Keras model: each layer's name, class, and config. Knows the
// dialects of Keras 3, Keras 2 and tf_keras. Rewrites an RNN as the layer of its cell, and the
// operations of Keras 2 as those of Keras 3. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns INVALID_ARGUMENT with the message "model: " and `what`.
absl::Status InvalidModel(absl::string_view what);

// True for the classes that are models: Sequential, Functional, Model.
bool IsModel(const std::string& class_name);

// A layer of the list. `whole` points to the layer's entry in the file, which has its calls, too.
struct Listed {
  LayerSpec spec;
  const nlohmann::json* whole = nullptr;
};

// Reads the layers of a model's `config`. A layer that cannot be read is marked unusable, with a
// line in `problems`. INVALID_ARGUMENT if the list cannot be read.
absl::StatusOr<std::vector<Listed>> ReadLayers(const nlohmann::json& config,
                                               std::vector<std::string>& problems);

// If `layer` is a TimeDistributed that applies a model to each time step, returns that model;
// otherwise nullopt.
std::optional<Listed> ModelOfSteps(const LayerSpec& layer, bool keras2);

// Wraps `layer`, a layer of a model that ModelOfSteps returned, in a TimeDistributed whose key
// `trainable` is `trains`. INVALID_ARGUMENT if `layer` is an operation on tensors.
absl::Status DistributeOverSteps(bool trains, LayerSpec& layer);

}  // namespace paracord
