// The arithmetic of variables and their partitions: sizes of rows, shapes, and the checks that a
// process makes of specs from other processes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Separates, in a checkpoint, a partition's name from a slot's name. No variable may have it in its
// name.
inline constexpr char kSlotMark[] = "/.slot/";

// Returns the bytes of a tensor: 0 if a dimension is 0, nullopt if a uint64_t cannot hold them.
std::optional<uint64_t> TensorBytes(const std::vector<uint64_t>& shape, uint64_t element_bytes);

// Whether the variable is a growing table, whose rows are for the ids updated so far. Axis 0 of its
// shape counts shards, and each shard is a partition.
inline bool IsGrowing(const VariableSpec& variable) {
  return variable.table().kind() == TableSpec::GROWING;
}
// Returns which of a growing table's `shards` (2^32 at most) is the shard of an id. Id 0, which
// Keras masks, is always in shard 0.
inline uint32_t ShardOfRow(uint64_t id, uint64_t shards) {
  // The finalizer of MurmurHash3, a bijection that leaves 0 alone.
  id = (id ^ (id >> 33)) * 0xff51afd7ed558ccd;
  id = (id ^ (id >> 33)) * 0xc4ceb9fe1a85ec53;
  id ^= id >> 33;
  return static_cast<uint32_t>((id >> 32) * shards >> 32);
}

// Returns the number of elements of one row of a variable: the product of its shape without axis 0.
uint64_t RowElements(const VariableSpec& variable);
uint64_t PartitionElements(const VariableSpec& variable, const PartitionSpec& partition);
// Returns a partition's shape: the variable's, with the number of the partition's rows on axis 0;
// empty for a scalar.
std::vector<uint64_t> PartitionShape(const VariableSpec& variable, const PartitionSpec& partition);
// Checks the names, types (only float32 is allowed), sizes, moving averages, constraints and tables
// of variables. INVALID_ARGUMENT names the variable.
absl::Status CheckVariables(std::span<const VariableSpec> variables);
// Checks a partition's variable, name and rows against variables that CheckVariables has accepted.
// INVALID_ARGUMENT names the partition.
absl::Status CheckPartition(std::span<const VariableSpec> variables,
                            const PartitionSpec& partition);

}  // namespace paracord
