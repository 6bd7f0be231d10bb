// The operations of ops.h on the processor: oneDNN computes most products and convolutions, our own
// loops the rest. Device memory is host memory, and every operation is complete when its call
// returns.
#pragma once

#include <memory>
#include <string>

#include "tensor/ops.h"

namespace paracord {

// `threads` is the number of computing OpenMP threads, including the calling thread.
std::unique_ptr<Ops> MakeCpuOps(int threads);

// Names what determines the bits of results, besides the number of threads: the width of vectors,
// and oneDNN's version and instruction set. An example is "vectors 512 dnnl 2.6.3 isa 39".
std::string CpuNumerics();

// Returns the `sum` of Ops::Loss, without gradients and without a device: metrics are computed on
// the host.
double CpuLoss(const LossShape& shape, const float* outputs, const float* targets,
               const float* weights);

}  // namespace paracord
