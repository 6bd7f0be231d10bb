// The clock of code that no simulation runs: sockets, threads, processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace paracord {

// Milliseconds of a monotonic clock with an arbitrary origin.
inline int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Milliseconds of the wall clock since 1970, which may jump.
inline int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Limits log lines about what a peer can do as often as it likes. Thread-safe.
class OncePerSecond {
 public:
  bool Now() {
    const int64_t now_ms = SteadyMs();
    int64_t next_ms = next_ms_;
    return now_ms >= next_ms && next_ms_.compare_exchange_strong(next_ms, now_ms + 1000);
  }

 private:
  std::atomic<int64_t> next_ms_{0};
};

}  // namespace paracord
