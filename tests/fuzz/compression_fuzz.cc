// Decodes the bytes as elements in each dense encoding and as int8, in pieces of any size.
#include <cstring>
#include <vector>

#include "exchange/compression.h"
#include "exchange/encoding.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t chunk = 1 + input.Number(255);
  const std::string_view bytes = input.Rest();
  for (const Encoding encoding : {ENCODING_FLOAT32, ENCODING_BF16, ENCODING_F16}) {
    const size_t elements = bytes.size() / ElementBytes(encoding);
    const absl::string_view used(bytes.data(), elements * ElementBytes(encoding));
    std::vector<float> whole(elements), cut(elements);
    DecodeDense(encoding, absl::Cord(used), whole);
    DecodeDense(encoding, Chunked({used.data(), used.size()}, chunk), cut);
    Demand(elements == 0 || std::memcmp(whole.data(), cut.data(), elements * sizeof(float)) == 0,
           "chunks do not change elements");
    std::vector<uint16_t> back(2 * elements);
    EncodeDense(encoding, whole, reinterpret_cast<char*>(back.data()));
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  if (values.empty()) return 0;
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  std::vector<float> residual = values;
  std::vector<char> encoded(Int8Bytes(values.size()));
  if (EncodeInt8(residual, encoded, 0, values.size())) {
    std::vector<float> scales((values.size() + kInt8Block - 1) / kInt8Block);
    std::memcpy(scales.data(), encoded.data(), scales.size() * sizeof(float));
    std::vector<float> decoded(values.size());
    const auto* const first =
        reinterpret_cast<const int8_t*>(encoded.data()) + scales.size() * sizeof(float);
    DecodeInt8(scales, {first, values.size()}, decoded);
  }
  residual = values;
  std::vector<char> top(TopKCount(values.size(), 0.25) * kTopKEntryBytes);
  (void)EncodeTopK(residual, top);
  return 0;
}

}  // namespace paracord::fuzz
