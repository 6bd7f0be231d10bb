// A convolution of cuDNN: its descriptors, and the algorithms that its heuristics choose.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/ops/cuda/runtime.h"
#include "worker/ops/cuda/toolkit_library.h"
#include "worker/ops/cuda/toolkit_runtime.h"

namespace paracord::cuda {

// `cudnn` must live longer, and work on the stream that is given to the calls. UNIMPLEMENTED: there
// is no algorithm, or none that is deterministic where that is asked for, in any direction.
absl::StatusOr<std::unique_ptr<Convolution>> MakeToolkitConvolution(const Libraries& libraries,
                                                                    cudnnHandle_t cudnn,
                                                                    const ToolkitOptions& options,
                                                                    const ConvCall& call);

}  // namespace paracord::cuda
