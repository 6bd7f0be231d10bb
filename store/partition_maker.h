// Makes the partitions of a Load order from their contents. In a synchronous job, a trained
// partition begins with a state that follows from the plan and the partition's ledger. Does no I/O;
// one thread at a time.
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
  // The maker reads `plan`, `optimizer`, `sync`, `clip` and `round_rows` of `content`, which must
  // outlive it. With `keeps_before`, partitions that form rounds keep the values before the newest
  // round. All partitions share `pinned`. `seed` is the job's.
  PartitionMaker(const PartitionSet& content, bool keeps_before, uint64_t seed,
                 std::shared_ptr<PinnedBytes> pinned)
      : content_(content), keeps_before_(keeps_before), seed_(seed), pinned_(std::move(pinned)) {}

  // See OptimizerFor.
  Optimizer OptimizerOf(const VariableSpec& variable) const {
    return OptimizerFor(variable, content_.optimizer);
  }
  // Makes an empty shard of a growing table. Errors as GrowingTable::Make.
  absl::StatusOr<std::unique_ptr<GrowingTable>> MakeShard(const VariableSpec& variable) const;

  // Make a partition. The optimizer's count of steps comes from the ledger in `contents`, not from
  // `contents.steps`. DATA_LOSS: in a synchronous job, StateOf finds the ledger impossible.
  absl::StatusOr<std::unique_ptr<Partition>> Make(const VariableSpec& variable,
                                                  const PartitionSpec& spec,
                                                  PartitionContents contents) const;
  absl::StatusOr<std::unique_ptr<Partition>> Make(const VariableSpec& variable,
                                                  const PartitionSpec& spec,
                                                  TableContents contents) const;

 private:
  // Returns nullopt if the partition forms no rounds.
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
