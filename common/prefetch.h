// Prefetches memory about to be read or written, to overlap loads of several places. Any address is
// allowed; the only effect is on caches.
//
// No other file uses __builtin_prefetch. g++ 12 regards a function with nothing but a prefetch as
// free of effects and drops its calls; the empty volatile assembly counts as an effect and emits no
// instruction.
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
