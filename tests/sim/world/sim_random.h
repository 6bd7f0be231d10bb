// The simulator's only source of chance: splitmix64 from a seed. Each part of the world draws from
// a separate stream, so a change in one part does not shift the draws of the rest. Not thread-safe.
#pragma once

#include <cstdint>

#include "common/random.h"

namespace paracord {

class SimRandom : public Random {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() override {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)
  bool Chance(double share) { return share > 0 && Unit() < share; }

  // Returns a new stream, determined by the state of this stream and `name`.
  SimRandom Fork(uint64_t name) {
    SimRandom mixed(Next() ^ (name * 0xD6E8FEB86659FD93u));
    return SimRandom(mixed.Next());
  }

 private:
  uint64_t state_;
};

}  // namespace paracord
