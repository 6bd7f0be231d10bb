// The arithmetic of variables and their partitions: elements of rows, shapes, and the checks that
// every receiver of specs makes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Separates a partition's name from its slot's in a checkpoint, so no variable may contain it.
inline constexpr char kSlotMark[] = "/.slot/";

// Returns the bytes of a tensor: 0 if a dimension is 0, nullopt if they do not fit 64 bits.
std::optional<uint64_t> TensorBytes(const std::vector<uint64_t>& shape, uint64_t element_bytes);

// Whether the variable is a table whose rows are those ids that were updated. Its axis 0 counts
// shards, each of them a partition.
inline bool IsGrowing(const VariableSpec& variable) {
  return variable.table().kind() == TableSpec::GROWING;
}
// The shard of a growing table that has an id, of `shards` (2^32 at most). Id 0, which Keras masks,
// is the first of the first shard.
inline uint32_t ShardOfRow(uint64_t id, uint64_t shards) {
  // The finalizer of MurmurHash3, a bijection that leaves 0 alone.
  id = (id ^ (id >> 33)) * 0xff51afd7ed558ccd;
  id = (id ^ (id >> 33)) * 0xc4ceb9fe1a85ec53;
  id ^= id >> 33;
  return static_cast<uint32_t>((id >> 32) * shards >> 32);
}

// Returns the elements of one row of a variable: the product of its shape without axis 0.
uint64_t RowElements(const VariableSpec& variable);
uint64_t PartitionElements(const VariableSpec& variable, const PartitionSpec& partition);
// Returns a partition's shape, which is the variable's with axis 0 cut; empty for a scalar.
std::vector<uint64_t> PartitionShape(const VariableSpec& variable, const PartitionSpec& partition);
// Checks that names are valid and unique, that the type is float32, that no dimension is 0, that
// sizes do not overflow, and that every constraint is known. INVALID_ARGUMENT names the variable.
absl::Status CheckVariables(std::span<const VariableSpec> variables);
// Checks a partition's index, name and rows against variables that have been checked.
// INVALID_ARGUMENT names the partition.
absl::Status CheckPartition(std::span<const VariableSpec> variables,
                            const PartitionSpec& partition);

}  // namespace paracord
