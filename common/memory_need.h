// The memory that a ps needs for a set of partitions. A ps refuses partitions whose need is above
// its --memory-limit (MemoryBudget::HoldVariables). A coordinator computes the same need before it
// moves partitions, and gives the move up if a ps would refuse them.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// A partition on a ps, in bytes.
struct PartitionNeed {
  uint64_t resident = 0;  // values and slots
  uint64_t pushed = 0;  // a gradient of all elements; 0: it is not trained, or only rows are pushed
  bool trains_rows = false;
};

// All partitions of a ps, in bytes.
struct MemoryNeed {
  uint64_t variables = 0;  // values and slots
  uint64_t pushed = 0;     // one push of all partitions
  // Sums of rounds and values before the newest round, at most; without rows of tables.
  uint64_t rounds = 0;
  bool round_rows = false;  // tables train in rounds: sums have rows, too

  // Returns the least --memory-limit with which a ps can hold the partitions.
  uint64_t LeastLimit() const;
};

// Returns the most gradient sums that a partition holds at once in rounds of `lanes` lanes.
constexpr uint32_t RoundSumsMax(uint32_t lanes) { return (lanes + 1) / 2; }

// How partitions train in rounds, in a synchronous job. With `keeps_before`, each also keeps its
// values before the newest round.
struct RoundsNeed {
  uint32_t lanes = 0;  // lanes of a round; 0: the job has no rounds
  bool keeps_before = false;
};

// Sums what partitions need. Not included: the rows in pushes to tables, which are few, and future
// rows of growing tables.
MemoryNeed NeedOfAll(std::span<const PartitionNeed> partitions, const RoundsNeed& rounds);

}  // namespace paracord
