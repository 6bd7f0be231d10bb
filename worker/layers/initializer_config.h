// Initializers as model files name them: Keras' classes, their names in snake case, and old names.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// InvalidArgument: no such initializer, or an option that it does not have.
absl::StatusOr<Initializer> ReadInitializer(const nlohmann::json& value);

}  // namespace paracord
