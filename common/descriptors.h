// The limit of this process's descriptors: open files and connections together (ulimit -n).
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace paracord {

// The descriptors that a process needs besides its connections to peers.
inline constexpr uint64_t kOwnDescriptors = 32;

// Descriptors kept free for files, which matter more than connections of strangers: a new
// connection is closed if fewer would be left.
inline constexpr int kFileDescriptors = 16;
// Returns the current limit of descriptors.
int DescriptorsMax();

// Raises the limit as far as the system allows. INVALID_ARGUMENT if the limit is then less than
// `least`: with too few descriptors, a process may wait for a connection forever.
absl::Status WantDescriptors(uint64_t least);

}  // namespace paracord
