// The operations of ops.h over a Runtime (runtime.h): products by cuBLASLt, convolutions by cuDNN,
// the rest by our own kernels. The operations are asynchronous; Finish returns their errors.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/group_ops.h"

namespace paracord::cuda {

// With `graphs`, repeated steps are launched as a CUDA graph (replay.h).
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(std::unique_ptr<Runtime> runtime, bool graphs = true);

// Like MakeOps, for a runtime of MakeToolkitGroup: the replica's `group` adds up arrays.
absl::StatusOr<Replica> MakeReplica(std::unique_ptr<Runtime> runtime, bool graphs = true);

}  // namespace paracord::cuda
