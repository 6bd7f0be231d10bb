// Converts model files of Keras 2.0 and 2.1 to the form of later Keras 2 files. Pure.
#pragma once

#include <optional>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the converted model; nullopt if the model contains neither of two old forms. A Sequential
// (the model or an inner one) whose config is a bare list of layers gets a config with the list as
// `layers`. In a file of 2.0 or 2.1 a GRU without `reset_after` gets false, the behaviour of those
// versions.
std::optional<nlohmann::json> FromEarlyKeras2(const nlohmann::json& model);

}  // namespace paracord
