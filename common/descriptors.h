// The limit of descriptors (open files and connections) of this process, `ulimit -n`.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace paracord {

// How many descriptors a process needs besides its connections to workers, ps and coordinator.
inline constexpr uint64_t kOwnDescriptors = 32;

// How many descriptors a listener keeps free for files: a new connection waits in the backlog, or
// is closed, if fewer would be left.
inline constexpr int kFileDescriptors = 16;
// Returns the current limit of descriptors.
int DescriptorsMax();

// Raises the limit as far as the system allows this process. Returns INVALID_ARGUMENT if the system
// allows fewer than `least`, with which a process may wait for a connection forever.
absl::Status WantDescriptors(uint64_t least);

}  // namespace paracord
