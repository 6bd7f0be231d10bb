// The clocks of code that does not run in the simulation: sockets, threads, processes.
#pragma once

#include <algorithm>
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

// Limits how often a peer can make this process log, by an action that the peer may repeat at will.
// Now returns whether a line may be written. After each line there is a wait, first of a second and
// then twice as long as the one before, up to kMostMs. If a line comes kMostMs or more after the
// end of a wait, the next wait is a second again. Thread-safe.
class OncePerSecond {
 public:
  static constexpr int64_t kLeastMs = 1000;
  static constexpr int64_t kMostMs = 32000;

  bool Now(int64_t now_ms = SteadyMs()) {
    int64_t next_ms = next_ms_;
    if (now_ms < next_ms) return false;
    const int64_t wait_ms =
        now_ms - next_ms < kMostMs ? std::min(2 * wait_ms_.load(), kMostMs) : kLeastMs;
    if (!next_ms_.compare_exchange_strong(next_ms, now_ms + wait_ms)) return false;
    wait_ms_ = wait_ms;
    return true;
  }

 private:
  std::atomic<int64_t> next_ms_{-kMostMs};
  std::atomic<int64_t> wait_ms_{kLeastMs};  // the wait that followed the last line
};

}  // namespace paracord
