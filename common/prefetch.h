// Asks the processor for memory that will be read or written soon, so that the loads of several
// places overlap. Any address is allowed; nothing happens but that caches may be filled.
//
// This is the only place with __builtin_prefetch. g++ 12 takes a function whose only effect is a
// prefetch for one without effects and drops the calls of that function; the empty volatile
// assembly is an effect, and no instruction.
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
