// Converts tensors of other types in safetensors files to float32. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "storage/safetensors.h"

namespace paracord {

// Returns the bytes of an element; 0 if ToFloats does not support the tensor's type.
uint64_t NumberBytes(const TensorInfo& tensor);

// Converts out.size() elements. F64 is rounded. Returns INVALID_ARGUMENT with the tensor's name for
// types that are not numbers, and for integers beyond 2^24 in magnitude, of which float32 lacks
// some.
absl::Status ToFloats(const TensorInfo& tensor, std::string_view bytes, std::span<float> out);

}  // namespace paracord
