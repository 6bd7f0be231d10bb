// Reads an amount of CPUs or bytes in the form of Kubernetes, such as "500m" CPUs, "8Gi" or "8e9"
// bytes. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// Returns the amount in CPUs or bytes. INVALID_ARGUMENT says what is wrong with `text`, and how a
// quantity is written.
absl::StatusOr<double> ParseQuantity(const std::string& text);

}  // namespace paracord
