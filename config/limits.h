// Limits on which several roles have to agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

// The most bytes of values in a partition of a variable or a fixed table.
inline constexpr uint64_t kPartitionBytesMax = uint64_t{1} << 30;

// The most variables of a job; each has at least one partition.
inline constexpr size_t kVariablesMax = 1 << 16;

// The most that a job may set for a growing table, and one default: the number of shards; the
// appearance of an id at which the id may get a row; ids without a row whose appearances are
// counted (default, most); batches without an update of a row until the row is removed.
inline constexpr uint64_t kTableShardsMax = 4096;
inline constexpr uint32_t kAdmitAfterMax = 255;
inline constexpr uint64_t kCandidatesDefault = uint64_t{1} << 22;
inline constexpr uint64_t kCandidatesMax = uint64_t{1} << 32;
inline constexpr uint64_t kExpireBatchesMax = uint64_t{1} << 30;

// The most bytes in the text of a job or of a model; models of many layers are long.
inline constexpr size_t kJobBytesMax = 64 << 20;
// The deepest nesting of a job's JSON: Keras takes about six levels for each model inside a model.
inline constexpr int kJobDepthMax = 128;

}  // namespace paracord
