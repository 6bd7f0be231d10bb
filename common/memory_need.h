// The memory that a ps needs for a set of partitions. A ps refuses partitions that need more than
// its --memory-limit (MemoryBudget::HoldVariables). A coordinator computes the need of each ps
// before it moves partitions between ps, and does not move them if a ps would refuse them.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// What a partition needs, in bytes.
struct PartitionNeed {
  uint64_t resident = 0;  // values and slots
  // A gradient of all elements; 0 if only rows of the partition are pushed, or nothing.
  uint64_t pushed = 0;
  bool trains_rows = false;
};

// What all partitions of a ps need, in bytes.
struct MemoryNeed {
  uint64_t variables = 0;  // values and slots
  uint64_t pushed = 0;     // one push of all partitions
  // The most that gradient sums and previous values in rounds take, without rows of tables.
  uint64_t rounds = 0;
  bool round_rows = false;  // whether gradient sums of rounds have rows of tables, too

  // Returns the least --memory-limit with which a ps can hold the partitions.
  uint64_t LeastLimit() const;
};

// Returns how many gradient sums a partition holds at most, if a round has `lanes` lanes.
constexpr uint32_t RoundSumsMax(uint32_t lanes) { return (lanes + 1) / 2; }

// How the rounds of a synchronous job use memory.
struct RoundsNeed {
  uint32_t lanes = 0;  // lanes of a round; 0 if the job has no rounds
  // Whether each partition keeps its values from before the newest round.
  bool keeps_before = false;
};

// Returns the sum of what the partitions need. The sum lacks the rows in pushes to tables, which
// are few, and the rows that growing tables will gain later.
MemoryNeed NeedOfAll(std::span<const PartitionNeed> partitions, const RoundsNeed& rounds);

}  // namespace paracord
