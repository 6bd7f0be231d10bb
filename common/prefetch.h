// Prefetches memory that is about to be read or written, so that loads from several addresses
// overlap. Any address is allowed. The only effect is on the caches of the processor.
//
// No other file uses __builtin_prefetch: g++ 12 drops calls of a function with nothing but a
// prefetch. The empty volatile assembly prevents that, and emits no instruction.
#pragma once

namespace paracord {

[[gnu::always_inline]] inline void PrefetchToRead(const void* at) {
  __builtin_prefetch(at);
  asm volatile("");
}

[[gnu::always_inline]] inline void PrefetchToWrite(const void* at) {
  __builtin_prefetch(at, 1);
  asm volatile("");
}

}  // namespace paracord
