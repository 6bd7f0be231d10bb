#include "store/partition_set.h"

namespace paracord {

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
