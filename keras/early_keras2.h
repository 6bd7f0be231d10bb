// Converts the files of Keras 2.0 and 2.1 to the form of later files. Pure.
#pragma once

#include <optional>

#include "nlohmann/json.hpp"

namespace paracord {

// Converts a model in the form of early Keras 2; nullopt if nothing has that form. A Sequential
// (the model or an inner one) whose config is a bare list of layers gets an object around the list.
// A GRU without `reset_after` gets false, the behaviour of those versions.
std::optional<nlohmann::json> FromEarlyKeras2(const nlohmann::json& model);

}  // namespace paracord
