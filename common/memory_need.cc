#include "common/memory_need.h"

#include <algorithm>

#include "common/memory_budget.h"

namespace paracord {

uint64_t MemoryNeed::LeastLimit() const {
  constexpr uint64_t kMax = MemoryBudget::kUnlimited;
  // Half of the rest beside the variables is for a single request. Where tables train in rounds,
  // the rest is three quarters of what the variables leave.
  const uint64_t push = std::min(pushed, kMax / 8);
  const uint64_t beside = round_rows ? (8 * push + 2) / 3 : 2 * push;
  return std::min(
      std::min(variables, kMax) + std::min(rounds, kMax) + beside + MemoryBudget::kProgramBytes,
      kMax);
}

MemoryNeed NeedOfAll(std::span<const PartitionNeed> partitions, const RoundsNeed& rounds) {
  constexpr uint64_t kMax = MemoryBudget::kUnlimited;
  const uint64_t copies =  // of the values of a partition
      rounds.lanes == 0 ? 0 : RoundSumsMax(rounds.lanes) + (rounds.keeps_before ? 1 : 0);
  MemoryNeed need;
  uint64_t pushed = 0;
  for (const PartitionNeed& partition : partitions) {
    need.variables = std::min(need.variables + std::min(partition.resident, kMax), kMax);
    pushed = std::min(pushed + std::min(partition.pushed, kMax), kMax);
    need.rounds = std::min(need.rounds + copies * partition.pushed, kMax);
    need.round_rows = need.round_rows || (copies > 0 && partition.trains_rows);
  }
  need.pushed = pushed + pushed / 64 + (64 << 10);  // the encoding adds little to the elements
  return need;
}

}  // namespace paracord
