// Reads the list of layers of a Keras model file: for each layer its name, its class, and the
// config that its calls use. It knows the three dialects of the files and rewrites RNN layers and
// operations to one form. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// An INVALID_ARGUMENT that begins with "model: ".
absl::Status InvalidModel(absl::string_view what);

// True for the classes of models: Sequential, Functional, Model.
bool IsModel(const std::string& class_name);

// One layer of the list; `whole` points to its entry in the file, with the calls.
struct Listed {
  LayerSpec spec;
  const nlohmann::json* whole = nullptr;
};

// Reads the layers of a model's `config`. A single layer that cannot be read is marked unusable and
// adds one of `problems`; the returned error is for a list that cannot be read at all.
absl::StatusOr<std::vector<Listed>> ReadLayers(const nlohmann::json& config,
                                               std::vector<std::string>& problems);

// The model that a TimeDistributed layer applies to each step; nullopt if it wraps another layer.
std::optional<Listed> ModelOfSteps(const LayerSpec& layer, bool keras2);

// Wraps a layer of such a model in a TimeDistributed of its own, so that the model can be
// flattened. INVALID_ARGUMENT if the layer is an operation on tensors.
absl::Status DistributeOverSteps(bool trains, LayerSpec& layer);

}  // namespace paracord
