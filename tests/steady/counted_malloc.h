// Counts large allocations in all threads by replacing glibc's malloc; operator new and libraries
// use it, too. Allocations by oneDNN itself do not count. It is a program of its own, because
// sanitizers replace malloc themselves and other tests should not run with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

struct LargeAllocations {
  uint64_t count = 0;
  size_t largest = 0;  // bytes
  int64_t peak = 0;    // bytes at once, of those that were allocated since the start
};

// Starts to count allocations of at least `bytes`.
void StartCounting(size_t bytes);
LargeAllocations StopCounting();

}  // namespace paracord
