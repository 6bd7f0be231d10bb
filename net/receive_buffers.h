// A pool of buffers of kReceiveBufferBytes for receiving messages: the first access to a fresh page
// costs more than copying a page from the socket. One pool for the process; thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/strings/cord.h"
#include "common/memory_budget.h"

namespace paracord {

inline constexpr size_t kReceiveBufferBytes = 1 << 20;

// From now on the pool keeps an unused buffer only while `share` has room for it. Before the first
// call, the pool keeps up to 64 unused buffers.
void KeepReceiveBuffersIn(std::shared_ptr<MemoryShare> share);

char* TakeReceiveBuffer();  // never null, aligned to 64 bytes
void GiveReceiveBuffer(char* buffer);
// A Cord of the first `bytes` of the buffer. The buffer returns to the pool when the last reference
// to its bytes ends.
absl::Cord CordOfReceiveBuffer(char* buffer, size_t bytes);

}  // namespace paracord
