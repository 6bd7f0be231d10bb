// A partition being read from a checkpoint: tells where to read tensors to, takes over each
// checkpoint of a chain, and becomes a Partition at the end. One thread.
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
  // All arguments must outlive the result. `memory` counts rows until the partition is finished.
  static absl::StatusOr<RestoredPartition> Make(const VariableSpec& variable,
                                                const PartitionSpec& spec,
                                                const PartitionMaker& maker,
                                                MemoryReservation& memory);

  // Returns the memory for a tensor of one checkpoint; `slot` is "" for the values; none if the
  // partition has no such tensor. A delta has only changed rows.
  TensorPlace PlaceOfTensor(bool delta, std::string_view slot, uint64_t elements);
  // Takes over the tensors of one checkpoint in the chain. Errors do not name the partition.
  absl::Status EndLink(const StoredPartition& stored);
  // Called after the last checkpoint, `restored`; nullopt if no later checkpoint may continue it.
  absl::StatusOr<std::unique_ptr<Partition>> Finish(const StoredPartition& stored,
                                                    const DataPlan& plan,
                                                    const std::optional<CheckpointName>& restored);

 private:
  RestoredPartition(const VariableSpec& variable, const PartitionSpec& spec,
                    const PartitionMaker& maker, MemoryReservation& memory)
      : variable_(&variable), spec_(&spec), maker_(&maker), memory_(&memory) {}

  // The memory for rows of a fixed table that have changed.
  TensorPlace PlaceOfChanged(std::string_view slot, uint64_t elements);
  TensorPlace PlaceInColumn(size_t index, uint64_t elements);
  TensorPlace PlaceInTable(bool delta, std::string_view slot, uint64_t elements);
  absl::Status FinishFixed(const StoredPartition& stored);
  absl::Status FinishTable(const StoredPartition& stored);

  const VariableSpec* variable_;
  const PartitionSpec* spec_;
  const PartitionMaker* maker_;
  MemoryReservation* memory_;
  std::vector<SlotSpec> slots_;          // slots stored as separate tensors
  std::vector<uint64_t> slot_elements_;  // elements found, by slot
  PartitionContents contents_;
  TableContents table_;
  uint64_t words_ = 0;             // words of the table's rows
  bool candidates_ = false;        // whether the checkpoint had all candidates
  std::vector<float> changed_;     // the rows of a delta, as words
  std::vector<uint64_t> removed_;  // ids that the delta removes
};

}  // namespace paracord
