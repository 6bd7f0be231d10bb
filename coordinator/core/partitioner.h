// Cuts variables along axis 0 into partitions, by exactly TensorFlow's three rules
// (tensorflow/python/distribute/sharded_variable.py). Pure. placement.h chooses the ps of each
// partition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr uint64_t kPartitionsMax = uint64_t{1} << 16;

// The length of axis 0 (1 for a scalar) and the bytes of one row.
struct VariableSize {
  uint64_t rows = 1;
  uint64_t row_bytes = 0;
};

// An error names the variable: it has no name, an axis of length 0, or more than 2^62 bytes.
absl::StatusOr<VariableSize> SizeOf(const VariableSpec& variable);

// How many parts the rule asks for: at least 1, at most one a row.
uint64_t PartCount(const VariableSize& size, const PartitionerSpec& rule);

// Returns partitions in the order of `variables`, with ascending ids and names
// "<variable>/part_<i>"; the first rows % parts parts have one row more. `ps` is left 0. Errors:
// duplicate variable names, more than kPartitionsMax partitions, names too long for a checkpoint of
// that many partitions, a partition above kPartitionBytesMax, and a model without trainable
// variables.
absl::StatusOr<std::vector<PartitionSpec>> PartitionVariables(
    std::span<const VariableSpec> variables, const PartitionerSpec& rule);

// Returns the bytes of each partition's parameters, without optimizer slots. Each shard of a
// growing table, whose size is unknown, counts as a constant that spreads shards evenly.
std::vector<uint64_t> PartitionBytes(std::span<const VariableSpec> variables,
                                     std::span<const PartitionSpec> partitions);

}  // namespace paracord
