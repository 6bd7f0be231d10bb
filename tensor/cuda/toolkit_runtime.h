// The Runtime (runtime.h) of a real GPU, by the CUDA runtime, cuBLAS, cuDNN and NCCL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

struct ToolkitOptions {
  bool deterministic = true;  // only algorithms with equal bits in every run
};

// Counts the GPUs. The error names what is missing: the driver, a device, cuBLAS or cuDNN.
absl::StatusOr<int> CountDevices();
absl::StatusOr<std::unique_ptr<Runtime>> MakeToolkitRuntime(int device,
                                                            const ToolkitOptions& options);
// Makes the runtimes of the first `count` devices, joined in a group by NCCL.
absl::StatusOr<std::vector<std::unique_ptr<Runtime>>> MakeToolkitGroup(
    int count, const ToolkitOptions& options);

}  // namespace paracord::cuda
