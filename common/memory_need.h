// The memory that a ps needs for a set of partitions. A ps refuses partitions whose need is above
// its --memory-limit (MemoryBudget::HoldVariables). A coordinator computes the same need before it
// moves partitions, and gives the move up if a ps would refuse them. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// A partition on a ps, in bytes.
struct PartitionNeed {
  uint64_t resident = 0;  // values and slots
  uint64_t pushed = 0;    // a gradient of all elements; 0: not trained, or rows alone are pushed
  bool trains_rows = false;
};

// All partitions of a ps, in bytes.
struct MemoryNeed {
  uint64_t variables = 0;   // values and slots
  uint64_t pushed = 0;      // one push of all partitions
  uint64_t rounds = 0;      // sums and values before, at worst; without rows of tables
  bool round_rows = false;  // rows of tables are in sums

  // Returns the least --memory-limit with which a ps holds all this.
  uint64_t LeastLimit() const;
};

// Returns how many sums a partition has under way at most in rounds of so many lanes.
constexpr uint32_t RoundSumsMax(uint32_t lanes) { return (lanes + 1) / 2; }

// How partitions form rounds, in a synchronous job.
struct RoundsNeed {
  uint32_t lanes = 0;  // lanes of a round; 0: no rounds
  bool keeps_before = false;
};

// Sums what partitions need. Not included: the rows in pushes to tables, which are few, and the
// future rows of growing tables.
MemoryNeed NeedOfAll(std::span<const PartitionNeed> partitions, const RoundsNeed& rounds);

}  // namespace paracord
