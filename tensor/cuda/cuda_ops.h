// The operations of ops.h over a table of CUDA calls: products by cuBLASLt, convolutions by cuDNN,
// the rest by bodies of our own. Asynchronous; the first error waits for Finish.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/group_ops.h"

namespace paracord::cuda {

// `graphs`: steps that repeat are launched as one (replay.h).
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(std::unique_ptr<Runtime> runtime, bool graphs = true);

// The same of a runtime that belongs to a group.
absl::StatusOr<Replica> MakeReplica(std::unique_ptr<Runtime> runtime, bool graphs = true);

}  // namespace paracord::cuda
