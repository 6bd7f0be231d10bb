// Converts the files of Keras 2.0 and 2.1 to the form of later files. Pure.
#pragma once

#include <optional>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the converted model, or nullopt if nothing in it has the early form. A Sequential, be it
// the model or one inside it, whose config is the list of its layers gets an object with that list.
// A GRU without `reset_after` gets false, which is what these versions did.
std::optional<nlohmann::json> FromEarlyKeras2(const nlohmann::json& model);

}  // namespace paracord
