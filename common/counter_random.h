// Random numbers as a pure function of (key, counter): equal on every machine, in any order of
// calls, from any thread, without a state. For choices that the job's seed determines, such as
// initial values, random crops and dropout. Not for run ids and boot ids (common/random.h), nor for
// secrets.
//
// The function is SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014): it returns the number at position `counter` of the sequence that starts at `key`.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "common/mix.h"

namespace paracord {

// Returns the key for the use `name` of a seed. The numbers of two names are unrelated.
inline uint64_t DeriveKey(uint64_t seed, std::string_view name) { return Mix64(seed, name); }

inline uint64_t RandomBits(uint64_t key, uint64_t counter) {
  // Mix64 itself adds the constant once more.
  return Mix64(key + counter * 0x9e3779b97f4a7c15u);
}

// Returns a number uniform in [0, 1), with 53 random bits.
inline double RandomUniform(uint64_t key, uint64_t counter) {
  return static_cast<double>(RandomBits(key, counter) >> 11) * 0x1.0p-53;
}

// A standard normal number, by the Box-Muller transform of RandomUniform(key, 2 * counter) and
// RandomUniform(key, 2 * counter + 1).
inline double RandomNormal(uint64_t key, uint64_t counter) {
  const double u = 1.0 - RandomUniform(key, 2 * counter);  // in (0, 1]
  const double v = RandomUniform(key, 2 * counter + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace paracord
