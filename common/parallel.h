// One loop over several threads: a pool that all callers in the process share. A caller works on
// its own loop too, so it never waits for helpers that are busy elsewhere, and loops may be started
// from many threads at once. `body` must not start another loop that waits for this one.
#pragma once

#include <cstddef>
#include <functional>

namespace paracord {

// How many threads one loop may use, the caller's included; 1 at first. Before any loop.
void SetParallelThreads(int threads);

// body(0) ... body(count - 1), in any order, possibly at once. Returns when all are done.
void ParallelFor(size_t count, const std::function<void(size_t)>& body);

}  // namespace paracord
