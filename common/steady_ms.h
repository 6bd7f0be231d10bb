// The clock of what no simulation runs: sockets, threads, processes.
#pragma once

#include <chrono>
#include <cstdint>

namespace paracord {

// Milliseconds of a clock that never goes back, from an arbitrary start.
inline int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace paracord
