// A parallel loop on a thread pool that all callers in the process share. The caller works on its
// own loop too, so that it never waits for helpers that are busy elsewhere; loops may be started
// from many threads at once. `body` must not start a loop that waits for this one.
#pragma once

#include <cstddef>
#include <functional>

namespace paracord {

// Sets how many threads one loop may use, the caller included; 1 by default. Called before any
// loop.
void SetParallelThreads(int threads);

// Runs body(0) ... body(count - 1), in any order, possibly at the same time, and returns when all
// are done.
void ParallelFor(size_t count, const std::function<void(size_t)>& body);

}  // namespace paracord
