// Converts model files of Keras 2.0 and 2.1 to the form of later Keras 2 files. Pure.
#pragma once

#include <optional>

#include "nlohmann/json.hpp"

namespace paracord {

// Converts two old forms, and returns nullopt if the model contains neither. The config of a
// Sequential (the model or an inner one) that is a bare list of layers becomes an object with the
// list as `layers`. In a file of Keras 2.0 or 2.1 a GRU or GRUCell without the key `reset_after`
// gets `reset_after` false, the behaviour of those versions.
std::optional<nlohmann::json> FromEarlyKeras2(const nlohmann::json& model);

}  // namespace paracord
