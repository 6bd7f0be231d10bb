// Variables and their partitions as plain facts: elements of rows, shapes, and the checks that
// every receiver of such facts makes. The one place for this arithmetic. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Stands between a partition's name and its slot's in a checkpoint, so no variable may contain it.
inline constexpr char kSlotMark[] = "/.slot/";

// The bytes of a tensor; 0 if a dimension is 0, nullopt if they do not fit 64 bits.
std::optional<uint64_t> TensorBytes(const std::vector<uint64_t>& shape, uint64_t element_bytes);

// The elements of one row of a variable: the product of its shape without axis 0.
uint64_t RowElements(const VariableSpec& variable);
uint64_t PartitionElements(const VariableSpec& variable, const PartitionSpec& partition);
// Of a partition: the variable's shape with axis 0 cut; empty for a scalar.
std::vector<uint64_t> PartitionShape(const VariableSpec& variable, const PartitionSpec& partition);
// Names are names and unique, float32, no dimension is 0, sizes do not overflow, what becomes of
// the values is known. INVALID_ARGUMENT names the variable.
absl::Status CheckVariables(std::span<const VariableSpec> variables);
// Against checked variables: the index, the name and the rows. INVALID_ARGUMENT names the
// partition.
absl::Status CheckPartition(std::span<const VariableSpec> variables,
                            const PartitionSpec& partition);

}  // namespace paracord
