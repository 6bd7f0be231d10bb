// Makes the partitions of a Load from given contents: how they form rounds follows from the job's
// plan and their ledgers. Pure; one thread at a time.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "store/dense_partition.h"
#include "store/partition_set.h"
#include "store/table_partition.h"

namespace paracord {

class PartitionMaker {
 public:
  // Uses the plan, optimizer, `sync` and `clip` of `content`, which must outlive the maker. With
  // `keeps_before`, partitions that form rounds keep the values before the newest round. All
  // partitions share `pinned`.
  PartitionMaker(const PartitionSet& content, bool keeps_before, uint64_t seed,
                 std::shared_ptr<PinnedBytes> pinned)
      : content_(content), keeps_before_(keeps_before), seed_(seed), pinned_(std::move(pinned)) {}

  Optimizer OptimizerOf(const VariableSpec& variable) const {
    return OptimizerFor(variable, content_.optimizer);
  }
  // An empty shard of a growing table. INVALID_ARGUMENT as GrowingTable::Make.
  absl::StatusOr<std::unique_ptr<GrowingTable>> MakeShard(const VariableSpec& variable) const;

  // Takes the optimizer's steps from the ledger in `contents`. DATA_LOSS as StateOf.
  absl::StatusOr<std::unique_ptr<Partition>> Make(const VariableSpec& variable,
                                                  const PartitionSpec& spec,
                                                  PartitionContents contents) const;
  absl::StatusOr<std::unique_ptr<Partition>> Make(const VariableSpec& variable,
                                                  const PartitionSpec& spec,
                                                  TableContents contents) const;

 private:
  // Nullopt: the partition forms no rounds.
  absl::StatusOr<std::optional<RoundsOptions>> RoundsOf(const VariableSpec& variable,
                                                        const PartitionSpec& spec,
                                                        const PartitionLedger& ledger) const;
  uint64_t StepsOf(const PartitionLedger& ledger) const {
    return content_.sync ? ledger.steps() : ledger.applied();
  }

  const PartitionSet& content_;
  const bool keeps_before_;
  const uint64_t seed_;
  const std::shared_ptr<PinnedBytes> pinned_;
};

}  // namespace paracord
