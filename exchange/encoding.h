// The dense encodings of a partition's elements (proto: Encoding): float32, bf16 and f16. Pure
// functions, any thread. Compressed encodings are in exchange/compression.h.
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

// The encoding that the job's `wire` ("float32", "bf16" or "f16") stands for.
Encoding EncodingOfWire(std::string_view wire);

// Bytes of one element in a dense encoding.
inline uint64_t ElementBytes(Encoding encoding) { return encoding == ENCODING_FLOAT32 ? 4 : 2; }

// Encodes into `out`, which has the bytes of in.size() elements and is aligned to them.
void EncodeDense(Encoding encoding, std::span<const float> in, char* out);
// Decodes the bytes of out.size() elements, in pieces of any sizes.
void DecodeDense(Encoding encoding, const absl::Cord& bytes, std::span<float> out);

}  // namespace paracord
