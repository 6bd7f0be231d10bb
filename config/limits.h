// Limits on which several roles have to agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

// The parameters of one partition, which are applied and sent under one lock.
inline constexpr uint64_t kPartitionBytesMax = uint64_t{1} << 30;

// The variables of a job, each of which has a partition at least.
inline constexpr size_t kVariablesMax = 1 << 16;

// A growing table: its shards, the appearances after which it may admit an id, the ids whose
// appearances it counts, and the batches after which a row may expire.
inline constexpr uint64_t kTableShardsMax = 4096;
inline constexpr uint32_t kAdmitAfterMax = 255;
inline constexpr uint64_t kCandidatesDefault = uint64_t{1} << 22;
inline constexpr uint64_t kCandidatesMax = uint64_t{1} << 32;
inline constexpr uint64_t kExpireBatchesMax = uint64_t{1} << 30;

// The text of a job or of a model, which is long if it has many layers.
inline constexpr size_t kJobBytesMax = 64 << 20;
// Keras nests about six levels for each model inside a model.
inline constexpr int kJobDepthMax = 128;

}  // namespace paracord
