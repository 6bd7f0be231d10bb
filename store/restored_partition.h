// A partition that is being read from a checkpoint, or from a chain of checkpoints with changed
// rows. Says where tensors are to be read to, takes over each checkpoint, and makes a Partition at
// the end. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory_budget.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"
#include "store/partition_maker.h"

namespace paracord {

class RestoredPartition {
 public:
  // All arguments must outlive the result. `memory` counts the rows that are read from checkpoints.
  static absl::StatusOr<RestoredPartition> Make(const VariableSpec& variable,
                                                const PartitionSpec& spec,
                                                const PartitionMaker& maker,
                                                MemoryReservation& memory);

  // Returns the memory for a tensor of one checkpoint; none if the partition has no such tensor.
  // `slot` is "" for the values. With `delta`, the tensor has only changed rows.
  TensorPlace PlaceOfTensor(bool delta, std::string_view slot, uint64_t elements);
  // Takes over the tensors that were read from one checkpoint. Errors do not name the partition.
  absl::Status EndLink(const StoredPartition& stored);
  // `stored` is what the last checkpoint says of the partition. `restored` is the name of that
  // checkpoint, or nullopt if no later one may continue it. DATA_LOSS: the ledger is damaged.
  // FAILED_PRECONDITION: the slots are those of another optimizer.
  absl::StatusOr<std::unique_ptr<Partition>> Finish(const StoredPartition& stored,
                                                    const DataPlan& plan,
                                                    const std::optional<CheckpointName>& restored);

 private:
  RestoredPartition(const VariableSpec& variable, const PartitionSpec& spec,
                    const PartitionMaker& maker, MemoryReservation& memory)
      : variable_(&variable), spec_(&spec), maker_(&maker), memory_(&memory) {}

  // The memory for the changed rows of a fixed table.
  TensorPlace PlaceOfChanged(std::string_view slot, uint64_t elements);
  TensorPlace PlaceInColumn(size_t index, uint64_t elements);
  TensorPlace PlaceInTable(bool delta, std::string_view slot, uint64_t elements);
  absl::Status FinishFixed(const StoredPartition& stored);
  absl::Status FinishTable(const StoredPartition& stored);

  const VariableSpec* variable_;
  const PartitionSpec* spec_;
  const PartitionMaker* maker_;
  MemoryReservation* memory_;
  std::vector<SlotSpec> slots_;          // the slots that are tensors of their own
  std::vector<uint64_t> slot_elements_;  // elements in the checkpoint, by slot
  PartitionContents contents_;           // the contents of a dense partition
  TableContents table_;                  // the contents of a table
  uint64_t words_ = 0;             // float32 words of a growing table's rows in this checkpoint
  bool candidates_ = false;        // whether the checkpoint has all candidates of a growing table
  std::vector<float> changed_;     // the changed rows in this checkpoint, as words
  std::vector<uint64_t> removed_;  // ids of rows that this checkpoint says are removed
};

}  // namespace paracord
