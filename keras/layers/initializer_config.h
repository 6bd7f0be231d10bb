// Initializers as model files name them: Keras' classes, their names in snake case, and old names.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// InvalidArgument: no such initializer, or an option that it does not have.
absl::StatusOr<Initializer> ReadInitializer(const nlohmann::json& value);

// With what it scales by, if it is one that scales by fans and they are not those of a convolution.
Initializer WithFans(Initializer initializer, int64_t in, int64_t out);

}  // namespace paracord
