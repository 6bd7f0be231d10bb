// The CUDA engine to compare with the CPU's: on the processor (cuda_host), or on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

// Unless `convolutions`, the engine acts as if cuDNN had no algorithm, if possible.
std::unique_ptr<Ops> CudaUnderTest(bool convolutions);

// The graph launches of all engines so far; nullopt on a GPU, which does not count them.
std::optional<int64_t> GraphLaunches();
inline bool OnGpu() { return !GraphLaunches().has_value(); }

// A group of so many devices; empty if there are fewer, or NCCL is missing.
std::vector<Replica> GroupUnderTest(size_t devices);

}  // namespace paracord
