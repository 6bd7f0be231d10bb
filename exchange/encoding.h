// The dense encodings in which a partition's elements travel (proto: Encoding): float32 as it is,
// and its 16-bit types. Pure functions, any thread. What is compressed is in net/compression.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/strings/cord.h"
#include "proto/paracord.pb.h"

namespace paracord {

inline bool IsDense(Encoding encoding) {
  return encoding == ENCODING_FLOAT32 || encoding == ENCODING_BF16 || encoding == ENCODING_F16;
}

// Of the job's `wire`: "float32", "bf16" or "f16".
Encoding EncodingOfWire(std::string_view wire);

// Bytes of one element in a dense encoding.
inline uint64_t ElementBytes(Encoding encoding) { return encoding == ENCODING_FLOAT32 ? 4 : 2; }

// `out` has the bytes of in.size() elements and is aligned to them.
void EncodeDense(Encoding encoding, std::span<const float> in, char* out);
// The converse; `bytes` are those of out.size() elements, in any pieces.
void DecodeDense(Encoding encoding, const absl::Cord& bytes, std::span<float> out);

}  // namespace paracord
