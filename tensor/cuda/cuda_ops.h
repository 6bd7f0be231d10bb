// The operations of ops.h over a Runtime (runtime.h): products by cuBLASLt, convolutions by cuDNN,
// the rest by our own kernels. They are asynchronous, and Finish returns the first error.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/group_ops.h"

namespace paracord::cuda {

// With `graphs`, repeated steps are launched as a CUDA graph (replay.h).
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(std::unique_ptr<Runtime> runtime, bool graphs = true);

// Makes the operations of a device in a group.
absl::StatusOr<Replica> MakeReplica(std::unique_ptr<Runtime> runtime, bool graphs = true);

}  // namespace paracord::cuda
