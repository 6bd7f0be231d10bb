// Reads the list of layers of a Keras model file: each layer's name, class, and config. Knows the
// three dialects of the files and rewrites RNN layers and operations to a common form. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

// An INVALID_ARGUMENT beginning with "model: ".
absl::Status InvalidModel(absl::string_view what);

// True for the classes of models: Sequential, Functional, Model.
bool IsModel(const std::string& class_name);

// A layer of the list; `whole` points to its entry in the file, with the calls.
struct Listed {
  LayerSpec spec;
  const nlohmann::json* whole = nullptr;
};

// Reads the layers of a model's `config`. An unreadable layer is marked unusable and adds to
// `problems`; the returned error is for an unreadable list.
absl::StatusOr<std::vector<Listed>> ReadLayers(const nlohmann::json& config,
                                               std::vector<std::string>& problems);

// The model applied to each step by a TimeDistributed layer; nullopt if another layer is wrapped.
std::optional<Listed> ModelOfSteps(const LayerSpec& layer, bool keras2);

// Wraps a layer of ModelOfSteps in a TimeDistributed of its own, to flatten the model.
// INVALID_ARGUMENT if the layer is an operation on tensors.
absl::Status DistributeOverSteps(bool trains, LayerSpec& layer);

}  // namespace paracord
