// Reads the initializers in model files: by class names, snake-case names, and older names.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// INVALID_ARGUMENT names an initializer or an option that is not supported.
absl::StatusOr<Initializer> ReadInitializer(const nlohmann::json& value);

// Sets fan-in and fan-out of an initializer that scales by them, where a convolution kernel's fans
// would be wrong.
Initializer WithFans(Initializer initializer, int64_t in, int64_t out);

}  // namespace paracord
