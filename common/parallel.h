// A parallel loop on a thread pool shared by the process. The caller works on its own loop, too,
// and never waits for helpers busy with other loops; loops may be started from many threads at
// once. `body` must not start a loop that waits for the end of the loop of `body`.
#pragma once

#include <cstddef>
#include <functional>

namespace paracord {

// Sets how many threads a loop may use, including the caller; 1 by default. Called before any loop;
// only the first call with more than 1 counts.
void SetParallelThreads(int threads);

// Runs body(0) ... body(count - 1), in any order, possibly at the same time, and returns when all
// calls have returned.
void ParallelFor(size_t count, const std::function<void(size_t)>& body);

}  // namespace paracord
