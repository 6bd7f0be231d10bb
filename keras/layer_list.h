// The layers of a Keras model as its file lists them, each with a name and what a call of it is of.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/json.h"
#include "nlohmann/json.hpp"

namespace paracord {

absl::Status InvalidModel(absl::string_view what);

bool IsModel(const std::string& class_name);

struct Listed {
  LayerSpec spec;
  const nlohmann::json* whole = nullptr;
};

// `config`: of the model. What single layers have wrong is added to the problems.
absl::StatusOr<std::vector<Listed>> ReadLayers(const nlohmann::json& config,
                                               std::vector<std::string>& problems);

// The model that a TimeDistributed calls for each step; nullopt: it is another layer.
std::optional<Listed> ModelOfSteps(const LayerSpec& layer, bool keras2);

// A layer of that model: TimeDistributed itself.
absl::Status DistributeOverSteps(bool trains, LayerSpec& layer);

}  // namespace paracord
