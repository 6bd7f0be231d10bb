// A pool of buffers of kReceiveBufferBytes for receiving messages: the first access to a fresh page
// costs more than copying a page from the socket. One pool for the process; thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/strings/cord.h"
#include "common/memory_budget.h"

namespace paracord {

inline constexpr size_t kReceiveBufferBytes = 1 << 20;

// From now on the pool keeps an unused buffer only if the share has room for it. Before the first
// call, the pool keeps up to 64 unused buffers.
void KeepReceiveBuffersIn(std::shared_ptr<MemoryShare> share);

char* TakeReceiveBuffer();  // never null, aligned to 64 bytes
void GiveReceiveBuffer(char* buffer);
// A Cord of the first `bytes` of the buffer, which returns to the pool with the Cord's last
// reference.
absl::Cord CordOfReceiveBuffer(char* buffer, size_t bytes);

}  // namespace paracord
