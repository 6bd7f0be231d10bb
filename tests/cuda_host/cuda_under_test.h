// The CUDA engine that tests compare with the CPU's: on the processor (cuda_host), or on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

// `convolutions` false: as if cuDNN had no algorithm, where that can be had.
std::unique_ptr<Ops> CudaUnderTest(bool convolutions);

// By all of them so far, where that can be known.
std::optional<int64_t> GraphLaunches();
inline bool OnGpu() { return !GraphLaunches().has_value(); }

// A group of so many devices; none where there are not so many, or no NCCL.
std::vector<Replica> GroupUnderTest(size_t devices);

}  // namespace paracord
