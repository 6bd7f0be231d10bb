#include "exchange/encoding.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/cord_reader.h"
#include "common/half_float.h"

namespace paracord {

Encoding EncodingOfWire(std::string_view wire) {
  if (wire == "bf16") return ENCODING_BF16;
  return wire == "f16" ? ENCODING_F16 : ENCODING_FLOAT32;
}

void EncodeDense(Encoding encoding, std::span<const float> in, char* out) {
  const std::span<uint16_t> halves(reinterpret_cast<uint16_t*>(out), in.size());
  if (encoding == ENCODING_BF16) return FloatsToBf16(in, halves);
  if (encoding == ENCODING_F16) return FloatsToF16(in, halves);
  if (!in.empty()) std::memcpy(out, in.data(), in.size_bytes());
}

void DecodeDense(Encoding encoding, const absl::Cord& bytes, std::span<float> out) {
  if (encoding == ENCODING_FLOAT32) {
    char* to = reinterpret_cast<char*>(out.data());
    for (const absl::string_view chunk : bytes.Chunks()) {
      // A chunk may have been received in place (exchange/reply_sink.h).
      if (chunk.data() != to) std::memcpy(to, chunk.data(), chunk.size());
      to += chunk.size();
    }
    return;
  }
  CordReader<uint16_t> reader(bytes);
  std::array<uint16_t, kFloatsAtOnce> buffer;
  while (!out.empty()) {
    const size_t count = std::min(kFloatsAtOnce, out.size());
    const std::span<const uint16_t> halves = reader.Next(std::span(buffer).first(count));
    if (encoding == ENCODING_BF16) Bf16ToFloats(halves, out.first(count));
    if (encoding == ENCODING_F16) F16ToFloats(halves, out.first(count));
    out = out.subspan(count);
  }
}

}  // namespace paracord
