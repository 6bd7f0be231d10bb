// Limits that several roles have to agree on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

// Of one partition's parameters, which are applied and sent under one lock.
inline constexpr uint64_t kPartitionBytesMax = uint64_t{1} << 30;

// Of the text of a job, or a model: those of many layers are long.
inline constexpr size_t kJobBytesMax = 64 << 20;
// Keras nests about six levels a model inside a model.
inline constexpr int kJobDepthMax = 128;

}  // namespace paracord
