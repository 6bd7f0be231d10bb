// The Runtime (runtime.h) of a real GPU, by the CUDA runtime, cuBLAS, cuDNN and NCCL.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

struct ToolkitOptions {
  bool deterministic = true;  // cuDNN uses only engines with equal bits in every run
};

// Counts the GPUs, of which at least one is new enough. The error names what is missing: the
// driver, a device, a new enough device, cuBLAS or cuDNN.
absl::StatusOr<int> CountDevices();
absl::StatusOr<std::unique_ptr<Runtime>> MakeToolkitRuntime(int device,
                                                            const ToolkitOptions& options);
// Makes the runtimes of `devices`, which are numbers of GPUs, joined in a group by NCCL. The error
// names the device, the call of NCCL, or what NCCL lacks.
absl::StatusOr<std::vector<std::unique_ptr<Runtime>>> MakeToolkitGroup(
    std::span<const int> devices, const ToolkitOptions& options);

}  // namespace paracord::cuda
