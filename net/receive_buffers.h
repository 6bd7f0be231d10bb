// Pooled buffers for receiving messages: touching a fresh page costs more than copying a page from
// the socket. Process-wide, thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/strings/cord.h"
#include "common/memory_budget.h"

namespace paracord {

inline constexpr size_t kReceiveBufferBytes = 1 << 20;

// From now on the pool keeps unused buffers only as far as they fit in the share.
void KeepReceiveBuffersIn(std::shared_ptr<MemoryShare> share);

char* TakeReceiveBuffer();  // never null, aligned to 64 bytes
void GiveReceiveBuffer(char* buffer);
// A Cord of the first `bytes` of the buffer, which returns to the pool with the Cord's last
// reference.
absl::Cord CordOfReceiveBuffer(char* buffer, size_t bytes);

}  // namespace paracord
