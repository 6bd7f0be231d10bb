// Compression of gradients: what a worker sends of a partition's gradient, and the residual that it
// adds to the next one (error feedback: Seide et al. 2014, Karimireddy et al. 2019). Pure functions
// over spans, any thread. Layouts are little-endian and described in docs/wire.md.
//
// int8: a float32 scale for each 256 elements, all of them first, then an int8 for each element; an
// element is its int8 times its scale.
// top_k: uint32 indices, ascending, then as many float32 values; other elements are 0.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// Computes sum = gradient + residual; all have the same size.
void AddResidual(std::span<const float> gradient, std::span<const float> residual,
                 std::span<float> sum);

inline constexpr uint64_t kInt8Block = 256;

uint64_t Int8Bytes(uint64_t elements);
// Encodes elements [first, first + count); `first` begins a block. `values` become the residual.
// Returns false if an element is not finite; then nothing may be sent.
bool EncodeInt8(std::span<float> values, std::span<char> out, uint64_t first, uint64_t count);
// Decodes out.size() elements that begin with a block; `scales` are those of their blocks.
void DecodeInt8(std::span<const float> scales, std::span<const int8_t> in, std::span<float> out);

inline constexpr uint64_t kTopKEntryBytes = 8;

// The number of elements that are sent, at least one.
uint64_t TopKCount(uint64_t elements, double ratio);
// Encodes the elements of the greatest magnitude, to about 0.4 % of it; among equals the first.
// `values`, at most 2^32 of them, become the residual. `out` holds TopKCount elements. Returns
// false if an element is not finite; then nothing may be sent.
bool EncodeTopK(std::span<float> values, std::span<char> out);

}  // namespace paracord
