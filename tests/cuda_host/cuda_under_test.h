// The CUDA engine that tests compare with the CPU's: on the processor (cuda_host), or on a GPU.
#pragma once

#include <memory>

#include "worker/ops/ops.h"

namespace paracord {

// `convolutions` false: as if cuDNN had no algorithm, where that can be had.
std::unique_ptr<Ops> CudaUnderTest(bool convolutions);

}  // namespace paracord
