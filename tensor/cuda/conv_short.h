// Convolution in 16 bits, tried by MakeConv2D (conv.cc) before float32.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/engine.h"

namespace paracord::cuda {

// Returns null if 16 bits are not allowed or not expected to be faster for the shape, or if cuDNN
// lacks an engine for the output or one of the gradients.
absl::StatusOr<std::unique_ptr<Conv2D>> MakeShortConv2D(Engine& engine, const ConvShape& s);

}  // namespace paracord::cuda
