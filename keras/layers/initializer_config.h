// Reads initializers as model files name them: Keras' classes, snake-case names, and old names.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// INVALID_ARGUMENT if there is no such initializer, or it has no such option.
absl::StatusOr<Initializer> ReadInitializer(const nlohmann::json& value);

// Sets the fans of an initializer that scales by fans, where they are not those of a convolution.
Initializer WithFans(Initializer initializer, int64_t in, int64_t out);

}  // namespace paracord
