// A convolution by cuDNN: a graph for each direction, with an engine chosen by cuDNN's heuristics.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/toolkit_graph.h"
#include "tensor/cuda/toolkit_library.h"
#include "tensor/cuda/toolkit_runtime.h"

namespace paracord::cuda {

// The handle of `device` must outlive the convolution, which sets the handle's stream at every
// call. Returns UNIMPLEMENTED if no direction has an engine or, where the options require one, a
// deterministic engine.
absl::StatusOr<std::unique_ptr<Convolution>> MakeToolkitConvolution(const Libraries& libraries,
                                                                    const PlanDevice& device,
                                                                    const ToolkitOptions& options,
                                                                    const ConvCall& call);

}  // namespace paracord::cuda
