#include "store/partition_set.h"

#include <algorithm>

namespace paracord {

uint64_t ResidentBytes(const Content& content) {
  uint64_t bytes = 0;
  for (const auto& partition : content.partitions) bytes += partition->resident_bytes();
  return bytes;
}

void CountTables(const Content& content, MemoryBudget& memory) {
  const bool grows = std::ranges::any_of(
      content.partitions, [](const auto& partition) { return partition->growing(); });
  if (grows) memory.CountVariables(ResidentBytes(content));
}

PartitionDescription DescribePartition(const Partition::Facts& facts,
                                       const Partition::Counts& counts, bool intervals) {
  PartitionDescription description;
  description.set_id(facts.id);
  description.set_updates(counts.updates);
  description.set_healthy(counts.healthy);
  if (counts.table.has_value()) *description.mutable_table() = *counts.table;
  if (facts.trained) *description.mutable_ledger() = counts.ledger.ToProto(intervals);
  return description;
}

}  // namespace paracord
