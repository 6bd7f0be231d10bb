// Random numbers as a pure function of (key, counter): equal on every machine, in any order, from
// any thread, without generator state. For everything decided by the job's seed: initial values,
// shuffling, dropout. Not for identities (common/random.h) or secrets.
//
// The function is SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014) read at position `counter` of the sequence that starts at `key`.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "common/mix.h"

namespace paracord {

// Returns a key for one use of a seed; keys of different names are unrelated.
inline uint64_t DeriveKey(uint64_t seed, std::string_view name) { return Mix64(seed, name); }

inline uint64_t RandomBits(uint64_t key, uint64_t counter) {
  return Mix64(key + counter * 0x9e3779b97f4a7c15u);  // Mix64 adds the constant once more
}

// A number uniform in [0, 1), with 53 bits.
inline double RandomUniform(uint64_t key, uint64_t counter) {
  return static_cast<double>(RandomBits(key, counter) >> 11) * 0x1.0p-53;
}

// A standard normal number by the Box-Muller transform, from RandomUniform(key, 2 * counter) and
// RandomUniform(key, 2 * counter + 1).
inline double RandomNormal(uint64_t key, uint64_t counter) {
  const double u = 1.0 - RandomUniform(key, 2 * counter);  // in (0, 1]
  const double v = RandomUniform(key, 2 * counter + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace paracord
