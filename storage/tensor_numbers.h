// Converts tensors of other types than F32 to float32, for readers of files that others have
// written. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "storage/safetensors.h"

namespace paracord {

// Returns the bytes of an element in the file; 0 if ToFloats does not take the tensor's type.
uint64_t NumberBytes(const TensorInfo& tensor);

// Converts the bytes of out.size() elements. F64 is rounded. INVALID_ARGUMENT names the tensor: its
// type is none of numbers, or it holds an integer beyond 2^24, which float32 may not represent.
absl::Status ToFloats(const TensorInfo& tensor, std::string_view bytes, std::span<float> out);

}  // namespace paracord
