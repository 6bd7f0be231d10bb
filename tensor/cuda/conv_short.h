// Whether a convolution is worth 16 bits, which conv.cc asks before it takes another way.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/cuda/engine.h"

namespace paracord::cuda {

// Null: 16 bits are not worth it, or cuDNN has not all of it.
absl::StatusOr<std::unique_ptr<Conv2D>> MakeShortConv2D(Engine& engine, const ConvShape& s);

}  // namespace paracord::cuda
