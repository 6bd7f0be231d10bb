// Decides whether a thread that waits for a message polls (spins) before it sleeps. A sleeping CPU
// takes tens of microseconds to wake up, longer than a short step. But a spin during which no
// message comes has wasted CPU time. Hence after three such spins in a row only every 32nd wait
// begins with a spin, until a message comes during a spin. Used by one thread.
#pragma once

#include <cstdint>

namespace paracord {

class Spin {
 public:
  static constexpr int64_t kNs = 100'000;  // the longest spin

  // `allowed`: whether there is a CPU to spare. If not, Try always returns false.
  explicit Spin(bool allowed) : allowed_(allowed) {}

  // Returns whether the next wait begins with a spin. If so, the caller calls Ended after it.
  bool Try() {
    if (!allowed_) return false;
    return misses_ < kMissesMax || ++waits_ % kSeldom == 0;
  }
  // `in_time`: whether the message came during the spin.
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
