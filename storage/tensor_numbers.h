// Tensors of other types than F32 as float32, for who reads files that others have written. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "storage/safetensors.h"

namespace paracord {

// Of an element in the file; 0: ToFloats does not take such a tensor.
uint64_t NumberBytes(const TensorInfo& tensor);

// `bytes` are those of out.size() elements. F64 is rounded. INVALID_ARGUMENT names the tensor: its
// type is none of numbers, or it holds an integer beyond 2^24, which float32 may lack.
absl::Status ToFloats(const TensorInfo& tensor, std::string_view bytes, std::span<float> out);

}  // namespace paracord
