// A convolution of cuDNN: a graph for each direction, and the engines that its heuristics choose.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/toolkit_graph.h"
#include "tensor/cuda/toolkit_library.h"
#include "tensor/cuda/toolkit_runtime.h"

namespace paracord::cuda {

// The handle of `device` must live longer, and work on the stream that is given to the calls.
// UNIMPLEMENTED: there is no engine, or none that is deterministic where that is asked for, in any
// direction.
absl::StatusOr<std::unique_ptr<Convolution>> MakeToolkitConvolution(const Libraries& libraries,
                                                                    const PlanDevice& device,
                                                                    const ToolkitOptions& options,
                                                                    const ConvCall& call);

}  // namespace paracord::cuda
