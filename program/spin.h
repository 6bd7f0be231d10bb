// Decides whether to poll for a message (to spin) before sleeping. A sleeping CPU takes tens of
// microseconds to wake up, longer than a short step; but polling in vain takes CPU time from
// others. Hence after three spins in a row in vain only every 32nd wait begins with a spin, until a
// message comes during one. Used by one thread.
#pragma once

#include <cstdint>

namespace paracord {

class Spin {
 public:
  static constexpr int64_t kNs = 100'000;  // the longest spin

  // `allowed`: whether there is a CPU to spare; otherwise Try is always false.
  explicit Spin(bool allowed) : allowed_(allowed) {}

  // Whether to spin in the next wait; if true, call Ended after the spin.
  bool Try() {
    if (!allowed_) return false;
    return misses_ < kMissesMax || ++waits_ % kSeldom == 0;
  }
  // Says whether the message came during the spin.
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

// Whether the calling thread may run on more CPUs than `threads`.
bool HasCpuBeside(int threads);

}  // namespace paracord
