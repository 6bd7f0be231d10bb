// Reads the initializers in model files, which have class names, snake-case names, or older names.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// INVALID_ARGUMENT names the initializer or the option that is not supported.
absl::StatusOr<Initializer> ReadInitializer(const nlohmann::json& value);

// Returns `initializer` with this fan-in and fan-out if it scales by them, otherwise unchanged. For
// variables whose fans do not follow from the shape as a convolution kernel's do.
Initializer WithFans(Initializer initializer, int64_t in, int64_t out);

}  // namespace paracord
