#include "server/content.h"

namespace paracord {

PartitionDescription DescribeCounts(const Partition::Facts& facts, const PartitionLedger& ledger,
                                    uint64_t updates, bool healthy, bool intervals) {
  PartitionDescription description;
  description.set_id(facts.id);
  description.set_updates(updates);
  description.set_healthy(healthy);
  if (facts.trained) *description.mutable_ledger() = ledger.ToProto(intervals);
  return description;
}

PartitionDescription DescribePartition(const Partition& partition, bool intervals) {
  const Partition::Counts counts = partition.GetCounts();
  return DescribeCounts(partition.facts(), counts.ledger, counts.updates, counts.healthy,
                        intervals);
}

}  // namespace paracord
