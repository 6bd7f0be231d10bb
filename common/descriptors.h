// How many files and connections this process may have open.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace paracord {

// What a process needs for itself, and to keep files apart from connections.
inline constexpr uint64_t kOwnDescriptors = 32;

// Raises the limit as far as it goes. INVALID_ARGUMENT: that is less than `least`; with fewer, what
// waits for a connection may wait for ever.
absl::Status WantDescriptors(uint64_t least);

}  // namespace paracord
