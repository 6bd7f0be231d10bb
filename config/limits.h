// Limits on which several roles have to agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

// The parameters of one partition, which is applied and sent under one lock.
inline constexpr uint64_t kPartitionBytesMax = uint64_t{1} << 30;

// The variables of a job; each has at least one partition.
inline constexpr size_t kVariablesMax = 1 << 16;

// A growing table: its shards, the appearances before an id may be admitted, the ids whose
// appearances are counted, and the batches without a touch before a row may expire.
inline constexpr uint64_t kTableShardsMax = 4096;
inline constexpr uint32_t kAdmitAfterMax = 255;
inline constexpr uint64_t kCandidatesDefault = uint64_t{1} << 22;
inline constexpr uint64_t kCandidatesMax = uint64_t{1} << 32;
inline constexpr uint64_t kExpireBatchesMax = uint64_t{1} << 30;

// The text of a job or of a model; models of many layers are long.
inline constexpr size_t kJobBytesMax = 64 << 20;
// Keras nests about six levels for each model inside a model.
inline constexpr int kJobDepthMax = 128;

}  // namespace paracord
