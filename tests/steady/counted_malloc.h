// Counts large allocations of all threads, by putting itself before glibc's malloc; operator new
// and the libraries come through it, too, but what oneDNN takes by itself does not count. A program
// of its own: sanitizers have a malloc of their own, and no other test should run over this one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

struct LargeAllocations {
  uint64_t count = 0;
  size_t largest = 0;  // bytes
};

// From now on, those of at least `bytes`.
void StartCounting(size_t bytes);
LargeAllocations StopCounting();

}  // namespace paracord
