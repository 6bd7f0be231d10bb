// Decides which ids of a growing table get a row: ids that have appeared often enough, and then by
// chance. Appearances are counted in buckets of eight candidates; in a full bucket a new id
// replaces the candidate with the fewest appearances, the oldest of several. So memory does not
// grow, a rare id is forgotten and begins anew, and an id is taken for another with a chance of
// about 10^-6. Depends only on the arguments and the calls so far. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "config/limits.h"

namespace paracord {

class Admission {
 public:
  static constexpr uint32_t kAfterMax = kAdmitAfterMax;

  // An id that has appeared `after` times (at most kAfterMax; 0 is as 1) is admitted with
  // `probability`, then and at each later appearance. Appearances of `candidates` ids are counted,
  // rounded up to a power of two of at least 8; none if `after` is 0 or 1.
  Admission(uint32_t after, double probability, uint64_t candidates, uint64_t seed);

  // Whether the id, which has no row and appears in the batch `step`, gets a row.
  bool Admit(uint64_t id, uint64_t step);

  uint64_t bytes() const { return candidates_.size() * sizeof(uint32_t); }
  // Returns what bytes() is for an Admission made with these arguments.
  static uint64_t BytesOf(uint32_t after, uint64_t candidates);
  // The whole state, for a snapshot and for restoring.
  const std::vector<uint32_t>& candidates() const { return candidates_; }
  std::vector<uint32_t>& candidates() { return candidates_; }

 private:
  uint32_t Count(uint64_t id);  // counts an appearance, and returns their number

  const uint32_t after_;
  const double probability_;
  const uint64_t seed_;
  // 24 bits of an id's hash, and its count in the last eight; 0: no id. In a bucket, newer ids
  // stand in front of older ones.
  std::vector<uint32_t> candidates_;
};

}  // namespace paracord
