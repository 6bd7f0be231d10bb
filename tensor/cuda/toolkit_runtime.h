// The table of calls (runtime.h) on a GPU: the CUDA runtime, cuBLAS and cuDNN.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

struct ToolkitOptions {
  bool deterministic = true;  // only algorithms that give the same bits in each run
};

// An error that says what is missing: the driver, a device, cuBLAS or cuDNN.
absl::StatusOr<int> CountDevices();
absl::StatusOr<std::unique_ptr<Runtime>> MakeToolkitRuntime(int device,
                                                            const ToolkitOptions& options);
// Of the first `count` devices, as a group.
absl::StatusOr<std::vector<std::unique_ptr<Runtime>>> MakeToolkitGroup(
    int count, const ToolkitOptions& options);

}  // namespace paracord::cuda
