// Floats as the bytes that messages and tables carry.
#pragma once

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace paracord {

// The values of a partition, or a gradient.
using Floats = std::vector<float>;

inline absl::Cord CordOf(const Floats& values) {
  return absl::Cord(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                      values.size() * sizeof(float)));
}

}  // namespace paracord
