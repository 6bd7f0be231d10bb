// The number of files and connections that this process may have open.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace paracord {

// Descriptors that a process needs for itself, and to keep files apart from connections.
inline constexpr uint64_t kOwnDescriptors = 32;

// Of all that a process may have, those that connections leave for files: checkpoints matter more
// than strangers.
inline constexpr int kFileDescriptors = 16;
// How many descriptors this process may have now.
int DescriptorsMax();

// Raises the limit as far as possible. INVALID_ARGUMENT if that is less than `least`: with too few,
// a process may wait for a connection forever.
absl::Status WantDescriptors(uint64_t least);

}  // namespace paracord
