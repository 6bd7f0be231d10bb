// The dense encodings of a partition's elements (proto: Encoding): float32, bf16 and f16. Pure
// functions, any thread. Compressed encodings are in exchange/compression.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/strings/cord.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Whether an encoding has every element, in 4 or 2 bytes.
inline bool IsDense(Encoding encoding) {
  return encoding == ENCODING_FLOAT32 || encoding == ENCODING_BF16 || encoding == ENCODING_F16;
}

// Returns the encoding for the job's `wire`: "bf16", "f16", or else float32.
Encoding EncodingOfWire(std::string_view wire);

// Returns the bytes of an element in a dense encoding.
inline uint64_t ElementBytes(Encoding encoding) { return encoding == ENCODING_FLOAT32 ? 4 : 2; }

// Encodes `in` to `out`, which has room for in.size() encoded elements, and is aligned to the size
// of one.
void EncodeDense(Encoding encoding, std::span<const float> in, char* out);
// Decodes `bytes`, which have exactly out.size() elements. The Cord may be chunked anywhere.
void DecodeDense(Encoding encoding, const absl::Cord& bytes, std::span<float> out);

}  // namespace paracord
