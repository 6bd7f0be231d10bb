// The CUDA engine that tests compare with the CPU's: on the processor (cuda_host), or on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "worker/ops/ops.h"

namespace paracord {

// `convolutions` false: as if cuDNN had no algorithm, where that can be had.
std::unique_ptr<Ops> CudaUnderTest(bool convolutions);

// By all of them so far, where that can be known.
std::optional<int64_t> GraphLaunches();

}  // namespace paracord
