// Decides which ids of a growing table get a row: those that have appeared often enough, and of
// these each with a given probability. Counts the appearances of a limited number of ids, the
// candidates, in buckets of eight. In a full bucket, a new id replaces the candidate with the
// fewest appearances; of several such, the one that appeared longest ago. So memory does not grow,
// a rare id may be forgotten and then counts from 0 again, and an id is taken for another with a
// chance of about 10^-6. Depends only on the arguments and the calls so far. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "config/limits.h"

namespace paracord {

class Admission {
 public:
  static constexpr uint32_t kAfterMax = kAdmitAfterMax;

  // An id is admitted with `probability` at its `after`-th appearance, and at each later one.
  // `after` is at most kAfterMax; 0 means 1. The appearances of `candidates` ids are counted,
  // rounded up to a power of two of at least 8; none are counted if `after` is 0 or 1.
  Admission(uint32_t after, double probability, uint64_t candidates, uint64_t seed);

  // Counts an appearance of the id, which has no row, in the batch `step`. Returns whether the id
  // gets a row now.
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
  // One number for each candidate: 24 bits of the id's hash, and its count in the last eight bits;
  // 0: no id. In a bucket, ids are ordered by their last appearance, the latest first.
  std::vector<uint32_t> candidates_;
};

}  // namespace paracord
