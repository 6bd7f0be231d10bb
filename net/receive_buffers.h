// Memory that messages are received into, used again and again: a fresh page costs more than the
// socket that fills it. Process-wide, thread-safe.
#pragma once

#include <cstddef>

#include "absl/strings/cord.h"

namespace paracord {

inline constexpr size_t kReceiveBufferBytes = 1 << 20;

char* TakeReceiveBuffer();  // never null, aligned to 64 bytes
void GiveReceiveBuffer(char* buffer);
// The first `bytes` of it; given back when nobody reads them any more.
absl::Cord CordOfReceiveBuffer(char* buffer, size_t bytes);

}  // namespace paracord
