// A convolution by cuDNN: one graph for each direction, with an engine chosen by cuDNN's
// heuristics.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/toolkit_graph.h"
#include "tensor/cuda/toolkit_library.h"
#include "tensor/cuda/toolkit_runtime.h"

namespace paracord::cuda {

// The device's handle must outlive the convolution and belong to the stream that the calls are
// given. UNIMPLEMENTED means that no direction has an engine, or none that is deterministic where
// the options ask for that.
absl::StatusOr<std::unique_ptr<Convolution>> MakeToolkitConvolution(const Libraries& libraries,
                                                                    const PlanDevice& device,
                                                                    const ToolkitOptions& options,
                                                                    const ConvCall& call);

}  // namespace paracord::cuda
