// Cuts variables along axis 0 into partitions, by TensorFlow's three rules for sharded variables
// (tensorflow/python/distribute/sharded_variable.py). Pure functions. placement.h chooses the ps of
// each partition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr uint64_t kPartitionsMax = uint64_t{1} << 16;

// The length of axis 0 (1 for a scalar), and the bytes of one row, a slice at one index of axis 0.
struct VariableSize {
  uint64_t rows = 1;
  uint64_t row_bytes = 0;
};

// Returns INVALID_ARGUMENT if the variable has no name, an axis of length 0, or more than 2^62
// bytes.
absl::StatusOr<VariableSize> SizeOf(const VariableSpec& variable);

// How many partitions `rule` asks for: at least 1, at most one for each row.
uint64_t PartCount(const VariableSize& size, const PartitionerSpec& rule);

// Returns partitions in the order of `variables`, with ascending ids and names
// "<variable>/part_<i>". Of the P partitions of a variable with R rows, the first R % P have one
// row more than the others. A growing table has as many partitions as its spec has rows, whatever
// `rule` is. `ps` is left 0. INVALID_ARGUMENT: an error of SizeOf, two variables of one name, more
// than kPartitionsMax partitions, names too long for the header of a ps's file in a checkpoint, a
// partition above kPartitionBytesMax, a constraint on a norm over axis 0 of a variable in several
// partitions, or no trainable variable.
absl::StatusOr<std::vector<PartitionSpec>> PartitionVariables(
    std::span<const VariableSpec> variables, const PartitionerSpec& rule);

// Returns the bytes of each partition's parameters, without optimizer slots. The size of a growing
// table is unknown: each of its partitions counts as 16 MiB, so that the rule "greedy"
// (placement.h) gives the ps equal numbers of them.
std::vector<uint64_t> PartitionBytes(std::span<const VariableSpec> variables,
                                     std::span<const PartitionSpec> partitions);

}  // namespace paracord
