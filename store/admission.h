// Decides which ids of a growing table get a row: those that have appeared often enough, or by
// chance. Appearances are counted in memory that does not grow: buckets of eight candidates each,
// of which the one that appeared least, and of these longest ago, gives way to a new one. So an id
// that is rare enough is forgotten and begins anew, and one is counted for another with a chance of
// about 10^-6. A pure function of what it is asked. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "config/limits.h"

namespace paracord {

class Admission {
 public:
  static constexpr uint32_t kAfterMax = kAdmitAfterMax;

  // An id is admitted at its `after`-th appearance (at most kAfterMax; 0 and 1: at the first), and
  // then with `probability`. `candidates` are counted, rounded up to a power of two.
  Admission(uint32_t after, double probability, uint64_t candidates, uint64_t seed);

  // An id without a row appears in the batch `step`: whether it gets one.
  bool Admit(uint64_t id, uint64_t step);

  uint64_t bytes() const { return candidates_.size() * sizeof(uint32_t); }
  // The bytes of one that is made so.
  static uint64_t BytesOf(uint32_t after, uint64_t candidates);
  // All that it remembers, for a snapshot and to be restored.
  const std::vector<uint32_t>& candidates() const { return candidates_; }
  std::vector<uint32_t>& candidates() { return candidates_; }

 private:
  uint32_t Count(uint64_t id);

  const uint32_t after_;
  const double probability_;
  const uint64_t seed_;
  // 24 bits of the id's hash, and a count in the last eight. Newer ones stand in front of older.
  std::vector<uint32_t> candidates_;
};

}  // namespace paracord
