// Compression of gradients on a worker, with error feedback: the residual of each gradient is added
// to the next (Seide et al. 2014, Karimireddy et al. 2019). Pure functions over spans, any thread.
// Layouts are little-endian (docs/wire.md):
//
// int8: first a float32 scale for each 256 elements, then an int8 for each element. An element is
// its int8 times the scale of its block.
// top_k: ascending uint32 indices, then a float32 value for each. Omitted elements are 0.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// Computes sum = gradient + residual. All spans have equal sizes.
void AddResidual(std::span<const float> gradient, std::span<const float> residual,
                 std::span<float> sum);

inline constexpr uint64_t kInt8Block = 256;

uint64_t Int8Bytes(uint64_t elements);
// Encodes elements [first, first + count). `first` must begin a block. `values` become the
// residual. Returns false if an element is not finite; the caller must then send nothing.
bool EncodeInt8(std::span<float> values, std::span<char> out, uint64_t first, uint64_t count);
// Decodes out.size() elements that start at a block. `scales` has a scale for each block.
void DecodeInt8(std::span<const float> scales, std::span<const int8_t> in, std::span<float> out);

inline constexpr uint64_t kTopKEntryBytes = 8;

// Returns the number of elements to send, at least one.
uint64_t TopKCount(uint64_t elements, double ratio);
// Encodes the elements with the greatest magnitudes, which are compared to 8 bits of mantissa (0.4
// %). Among equals the first win. `values`, at most 2^32, become the residual. `out` has room for
// TopKCount elements. Returns false if an element is not finite; the caller must then send nothing.
bool EncodeTopK(std::span<float> values, std::span<char> out);

}  // namespace paracord
