// Compressed gradients: what a worker sends of one partition's gradient, and what it keeps to add
// to the next (error feedback: Seide et al. 2014, Karimireddy et al. 2019). Pure functions over
// spans, any thread. Layouts, little-endian, are in proto/README.md.
//
// int8: a float32 scale for each 256 elements, all of them first, then an int8 for each element; an
// element is its int8 times its scale.
// top_k: uint32 indices, ascending, then as many float32 values; other elements are 0.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

// sum = gradient + residual; all of one size.
void AddResidual(std::span<const float> gradient, std::span<const float> residual,
                 std::span<float> sum);

inline constexpr uint64_t kInt8Block = 256;

uint64_t Int8Bytes(uint64_t elements);
// Of elements [first, first + count), which begin with a block: they become what was not sent.
// False: something is not finite, and nothing may be sent.
bool EncodeInt8(std::span<float> values, std::span<char> out, uint64_t first, uint64_t count);
// Elements that begin with a block: out.size() int8 and the scales of their blocks.
void DecodeInt8(std::span<const float> scales, std::span<const int8_t> in, std::span<float> out);

inline constexpr uint64_t kTopKEntryBytes = 8;

// How many elements are sent: at least one.
uint64_t TopKCount(uint64_t elements, double ratio);
// Those of the greatest magnitude, to about 0.4 % of it; of equals the first. `values`, at most
// 2^32 of them, become what was not sent. `out` is for TopKCount of them; false as above.
bool EncodeTopK(std::span<float> values, std::span<char> out);

}  // namespace paracord
