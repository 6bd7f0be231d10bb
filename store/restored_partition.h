// A partition on its way from a checkpoint: says where the tensors that are read belong, takes over
// what each checkpoint of a chain has, and becomes a partition once all is read. One thread.
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
  // All must live longer; `memory` counts rows, which count as variables only when all is there.
  static absl::StatusOr<RestoredPartition> Make(const VariableSpec& variable,
                                                const PartitionSpec& spec,
                                                const PartitionMaker& maker,
                                                MemoryReservation& memory);

  // Returns the memory for a tensor of one checkpoint, of the values where `slot` is empty; none if
  // the partition has no such tensor. A delta has the rows alone that changed.
  TensorPlace PlaceOfTensor(bool delta, std::string_view slot, uint64_t elements);
  // Takes over what one checkpoint of the chain has. The error lacks the partition's name.
  absl::Status EndLink(const StoredPartition& stored);
  // Once all is read. `restored` is the checkpoint, if a later one may continue it.
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
  std::vector<SlotSpec> slots_;          // that are tensors of their own
  std::vector<uint64_t> slot_elements_;  // that were found of them
  PartitionContents contents_;
  TableContents table_;
  uint64_t words_ = 0;             // of the table's rows
  bool candidates_ = false;        // as many were there
  std::vector<float> changed_;     // the rows of a delta, as words
  std::vector<uint64_t> removed_;  // and the ids that it removes
};

}  // namespace paracord
