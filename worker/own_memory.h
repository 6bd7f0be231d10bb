// Computes how much memory a worker needs, whatever it computes on. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// INVALID_ARGUMENT if a copy of the variables, and their gradients of a lane on each of `devices`
// that train, do not fit in `limit` bytes. 0 devices: it does not train. Of a table a worker has
// only the rows that its batches name, which do not count.
absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, size_t devices,
                            uint64_t limit);

}  // namespace paracord
