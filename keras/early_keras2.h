// Brings what Keras 2.0 and 2.1 wrote differently into the form of later files. Pure.
#pragma once

#include <optional>

#include "nlohmann/json.hpp"

namespace paracord {

// A Sequential, the model itself or one inside of it, whose config is the list of its layers gets
// an object with that list. A GRU of these versions that does not say `reset_after` has it false,
// which is what it did then. Returns nothing if the model has none of these.
std::optional<nlohmann::json> FromEarlyKeras2(const nlohmann::json& model);

}  // namespace paracord
