// The limit of open files and connections of this process.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace paracord {

// Descriptors reserved for the process itself, and to keep files apart from connections.
inline constexpr uint64_t kOwnDescriptors = 32;

// Descriptors reserved for files by whoever accepts connections: checkpoints matter more than
// strangers.
inline constexpr int kFileDescriptors = 16;
// The current limit of descriptors.
int DescriptorsMax();

// Raises the limit as far as possible. INVALID_ARGUMENT if the result is less than `least`: with
// too few descriptors, a process may wait for a connection forever.
absl::Status WantDescriptors(uint64_t least);

}  // namespace paracord
