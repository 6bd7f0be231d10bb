// Decides whether to look for a message again and again for a while before sleeping until it comes.
// A sleeping CPU takes tens of microseconds to wake up, which is more than a short step takes; but
// a look that finds nothing takes the time of others. So it is tried for each wait as long as
// messages come in time, and now and then otherwise. Used by one thread.
#pragma once

#include <cstdint>

namespace paracord {

class Spin {
 public:
  static constexpr int64_t kNs = 100'000;  // of one wait

  // `allowed`: whether there is a CPU to spare.
  explicit Spin(bool allowed) : allowed_(allowed) {}

  // Whether to try it for the next wait; if so, Ended follows.
  bool Try() {
    if (!allowed_) return false;
    return misses_ < kMissesMax || ++waits_ % kSeldom == 0;
  }
  // Says whether the message came in time.
  void Ended(bool in_time) {
    misses_ = in_time ? 0 : misses_ < kMissesMax ? misses_ + 1 : kMissesMax;
  }

 private:
  static constexpr int kMissesMax = 3;
  static constexpr uint64_t kSeldom = 32;

  const bool allowed_;
  int misses_ = 0;
  uint64_t waits_ = 0;
};

// Whether this process may use more CPUs than so many threads.
bool HasCpuBeside(int threads);

}  // namespace paracord
