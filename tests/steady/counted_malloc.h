// Counts large allocations of all threads by replacing glibc's malloc, which operator new and
// libraries use. oneDNN's own allocations do not count. A separate program, because sanitizers also
// replace malloc, and other tests should not run with the replacement.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

struct LargeAllocations {
  uint64_t count = 0;
  size_t largest = 0;  // bytes
  int64_t peak = 0;    // greatest number of bytes held at once since the start
};

// Starts to count allocations of at least `bytes`.
void StartCounting(size_t bytes);
LargeAllocations StopCounting();

}  // namespace paracord
