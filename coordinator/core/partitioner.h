// Cuts variables along axis 0 into partitions, by TensorFlow's three rules exactly
// (tensorflow/python/distribute/sharded_variable.py). Pure. Which ps holds a partition is decided
// by placement.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr uint64_t kPartitionsMax = uint64_t{1} << 16;

// Rows of axis 0 (1 for a scalar) and bytes of one row.
struct VariableSize {
  uint64_t rows = 1;
  uint64_t row_bytes = 0;
};

// An error names the variable: no name, an axis of length 0, more than 2^62 bytes.
absl::StatusOr<VariableSize> SizeOf(const VariableSpec& variable);

// How many parts the rule asks for: at least 1, at most one a row.
uint64_t PartCount(const VariableSize& size, const PartitionerSpec& rule);

// In the order of `variables`, ids counting up, names "<variable>/part_<i>"; the first rows % parts
// parts have one row more. `ps` is left 0. Errors: duplicate variable names, more than
// kPartitionsMax partitions, names too long for a checkpoint of that many partitions, a partition
// above kPartitionBytesMax, and a model without trainable variables.
absl::StatusOr<std::vector<PartitionSpec>> PartitionVariables(
    std::span<const VariableSpec> variables, const PartitionerSpec& rule);

// Bytes of each partition's parameters, without optimizer slots; for a shard of a growing table,
// which is a partition whatever the rule says, a number that places all of them evenly.
std::vector<uint64_t> PartitionBytes(std::span<const VariableSpec> variables,
                                     std::span<const PartitionSpec> partitions);

}  // namespace paracord
