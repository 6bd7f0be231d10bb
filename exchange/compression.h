// Compression of gradients on a worker, with error feedback: what the compression of a gradient
// loses, its residual, is added to the next gradient (Seide et al. 2014, Karimireddy et al. 2019).
// Pure functions over spans, any thread. Layouts of the bytes, little-endian (docs/wire.md):
//
// int8: first a float32 scale for each block of 256 elements, then an int8 for each element. An
// element is its int8 times the scale of its block.
// top_k: ascending uint32 indices, then a float32 value for each index. Omitted elements are 0.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// Computes sum = gradient + residual. All spans have equal sizes.
void AddResidual(std::span<const float> gradient, std::span<const float> residual,
                 std::span<float> sum);

inline constexpr uint64_t kInt8Block = 256;  // elements

uint64_t Int8Bytes(uint64_t elements);  // the size of so many elements as int8
// Encodes elements [first, first + count) of `values` into `out`, which has the size Int8Bytes of
// all values. `first` must begin a block. Each encoded element of `values` is replaced by its
// residual. Returns false if an element is not finite, or is 2^127 or more in magnitude; the caller
// must then send nothing.
bool EncodeInt8(std::span<float> values, std::span<char> out, uint64_t first, uint64_t count);
// Decodes `in`, which begins at a block, into `out` of equally many elements. `scales` has the
// scale of each block.
void DecodeInt8(std::span<const float> scales, std::span<const int8_t> in, std::span<float> out);

inline constexpr uint64_t kTopKEntryBytes = 8;  // an index and a value

// Returns the number of elements to send, at least one: `elements` times `ratio`, rounded up.
uint64_t TopKCount(uint64_t elements, double ratio);
// Encodes the elements with the greatest magnitudes. Magnitudes are compared with 8 bits of
// mantissa (to 0.4 %); among equal ones the first win. Leaves the residual in `values`, at most
// 2^32 elements: encoded elements become 0. `out` has kTopKEntryBytes for each of TopKCount
// elements. Returns false if an element is not finite; the caller must then send nothing.
bool EncodeTopK(std::span<float> values, std::span<char> out);

}  // namespace paracord
