// A parallel loop on a pool of threads that the process shares. The thread that starts a loop works
// on the loop, too, and never waits for threads of the pool that are busy with other loops. Several
// threads may start loops at once. A `body` must not wait for the end of its own loop.
#pragma once

#include <cstddef>
#include <functional>

namespace paracord {

// Sets how many threads may work on a loop, including the thread that starts the loop; by default
// 1. To be called before any loop. Only the first call with more than 1 has an effect.
void SetParallelThreads(int threads);

// Calls body(0), ..., body(count - 1) in any order or at once, and returns when all these calls
// have returned.
void ParallelFor(size_t count, const std::function<void(size_t)>& body);

}  // namespace paracord
