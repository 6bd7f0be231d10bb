#include "store/partition_set.h"

#include <algorithm>

#include "common/human_bytes.h"
#include "common/log.h"

namespace paracord {

uint64_t ResidentBytes(const PartitionSet& content) {
  uint64_t bytes = 0;
  for (const auto& partition : content.partitions) bytes += partition->resident_bytes();
  return bytes;
}

void CountTables(const PartitionSet& content, MemoryBudget& memory) {
  const bool grows = std::ranges::any_of(
      content.partitions, [](const auto& partition) { return partition->growing(); });
  if (!grows) return;
  const uint64_t bytes = ResidentBytes(content);
  if (!memory.CountVariables(bytes)) return;
  Logger("memory").Warn(
      "variables and the rows of growing tables take {}, and --memory-limit is {}, of which an "
      "eighth stays for requests: this process may take more than its limit; a lower rows_max "
      "bounds the rows, or this ps needs more memory, or the job more ps",
      HumanBytes(bytes), HumanBytes(memory.limit()));
}

PartitionDescription DescribePartition(const Partition::Facts& facts,
                                       const Partition::Counts& counts, bool intervals) {
  PartitionDescription description;
  description.set_id(facts.id);
  description.set_updates(counts.updates);
  description.set_healthy(counts.healthy);
  if (counts.table.has_value()) *description.mutable_table() = *counts.table;
  if (!facts.trained) return description;
  *description.mutable_ledger() = counts.ledger.ToProto(intervals);
  description.set_state(counts.state);
  description.set_serves_before(counts.serves_before);
  description.set_learning_rate(counts.learning_rate);
  return description;
}

}  // namespace paracord
