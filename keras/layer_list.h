// Reads the list of layers in a Keras model file: each layer's name, class, and config. Knows the
// dialects of Keras 3, Keras 2 and tf_keras, and rewrites RNN layers and operations to one form.
// Pure.
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

// True for the classes of models: Sequential, Functional, Model.
bool IsModel(const std::string& class_name);

// A layer of the list. `whole` points to the layer's entry in the file, with its calls.
struct Listed {
  LayerSpec spec;
  const nlohmann::json* whole = nullptr;
};

// Reads the layers of a model's `config`. A layer that cannot be read is marked unusable, with a
// line in `problems`. INVALID_ARGUMENT if the list cannot be read.
absl::StatusOr<std::vector<Listed>> ReadLayers(const nlohmann::json& config,
                                               std::vector<std::string>& problems);

// Returns the model that a TimeDistributed layer applies to each time step; nullopt if `layer` is
// another layer, or applies no model.
std::optional<Listed> ModelOfSteps(const LayerSpec& layer, bool keras2);

// Wraps an inner layer of a ModelOfSteps in a TimeDistributed with the given `trainable`, because
// the model is flattened. INVALID_ARGUMENT if the inner layer is an operation on tensors.
absl::Status DistributeOverSteps(bool trains, LayerSpec& layer);

}  // namespace paracord
