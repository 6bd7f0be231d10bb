// The operations of ops.h on the processor: oneDNN for products and convolutions, our own loops
// for the rest. Device memory is host memory; everything is done when a call returns.
#pragma once

#include <memory>

#include "tensor/ops.h"

namespace paracord {

// `threads` is the number of OpenMP threads that oneDNN may use in the thread that computes.
std::unique_ptr<Ops> MakeCpuOps(int threads);

// Ops::Loss of the CPU, without gradients: metrics are taken on the host.
double CpuLoss(const LossShape& shape, const float* outputs, const float* targets,
               const float* weights);

}  // namespace paracord
