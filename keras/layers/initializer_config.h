// Reads the initializers of model files: Keras' classes, snake-case names, and old names.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// INVALID_ARGUMENT for an unknown initializer or option.
absl::StatusOr<Initializer> ReadInitializer(const nlohmann::json& value);

// Sets the fans of an initializer scaled by fans, where they differ from a convolution's.
Initializer WithFans(Initializer initializer, int64_t in, int64_t out);

}  // namespace paracord
