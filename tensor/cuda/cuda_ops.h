// The operations of ops.h over a Runtime (runtime.h): products by cuBLAS, convolutions by cuDNN
// where possible, the rest by our own kernels. The operations are asynchronous; Finish returns
// their errors.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/group_ops.h"

namespace paracord::cuda {

// With `graphs`, a step that repeats is launched as a CUDA graph (replay.h).
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(std::unique_ptr<Runtime> runtime, bool graphs = true);

// Like MakeOps, for a runtime from MakeToolkitGroup. The replica's `group` adds up arrays.
absl::StatusOr<Replica> MakeReplica(std::unique_ptr<Runtime> runtime, bool graphs = true);

}  // namespace paracord::cuda
