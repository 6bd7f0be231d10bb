// Converts tensors of foreign files from other types to float32. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "storage/safetensors.h"

namespace paracord {

// Returns the bytes of an element, or 0 if ToFloats does not support the type.
uint64_t NumberBytes(const TensorInfo& tensor);

// Converts out.size() elements. F64 is rounded. Returns INVALID_ARGUMENT with the tensor's name for
// types that are not numbers, and for integers above 2^24, which float32 may not represent.
absl::Status ToFloats(const TensorInfo& tensor, std::string_view bytes, std::span<float> out);

}  // namespace paracord
