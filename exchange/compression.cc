#include "exchange/compression.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "common/finite.h"
#include "common/vector_widths.h"

namespace paracord {
namespace {

// All bits but the sign; compares as the magnitude does.
constexpr uint32_t kMagnitude = 0x7fffffffu;

PARACORD_KERNEL void Add(const float* __restrict a, const float* __restrict b,
                         float* __restrict sum, size_t n) {
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

PARACORD_WIDTHS(void, AddWide, (const float* a, const float* b, float* sum, size_t n),
                Add(a, b, sum, n))

PARACORD_KERNEL float Greatest(const float* values, size_t n) {
  uint32_t greatest = 0;
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & kMagnitude;
    greatest = magnitude > greatest ? magnitude : greatest;
  }
  return std::bit_cast<float>(greatest);
}

// Quantises a block to int8, and leaves the residual in `values`. Adding and subtracting 1.5 * 2^23
// rounds a small float to an integer, ties to even.
PARACORD_KERNEL void Quantise(float* values, size_t n, float scale, float inverse, int8_t* out) {
  constexpr float kRound = 12582912.0f;
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float whole = (values[i] * inverse + kRound) - kRound;
    out[i] = static_cast<int8_t>(static_cast<int32_t>(whole));
    values[i] -= whole * scale;
  }
}

PARACORD_KERNEL bool EncodeBlocks(std::span<float> values, char* scales, int8_t* out) {
  for (size_t at = 0; at < values.size(); at += kInt8Block) {
    const size_t n = std::min<size_t>(kInt8Block, values.size() - at);
    const float greatest = Greatest(values.data() + at, n);
    if (!(greatest < 0x1p127f)) return false;  // -128 * scale must be finite
    // A block with a greatest element too small to divide by is encoded as zeros.
    const bool tiny = greatest < 0x1p-100f;
    const float scale = tiny ? 0.0f : greatest / 127.0f;
    const float inverse = tiny ? 0.0f : 127.0f / greatest;
    std::memcpy(scales + at / kInt8Block * sizeof(float), &scale, sizeof(scale));
    Quantise(values.data() + at, n, scale, inverse, out + at);
  }
  return true;
}

PARACORD_WIDTHS(bool, EncodeBlocksWide, (std::span<float> values, char* scales, int8_t* out),
                EncodeBlocks(values, scales, out))

PARACORD_KERNEL void DecodeBlocks(std::span<const float> scales, std::span<const int8_t> in,
                                  float* out) {
  for (size_t at = 0; at < in.size(); at += kInt8Block) {
    const size_t n = std::min<size_t>(kInt8Block, in.size() - at);
    const float scale = scales[at / kInt8Block];
    PARACORD_INDEPENDENT
    for (size_t i = 0; i < n; ++i) out[at + i] = static_cast<float>(in[at + i]) * scale;
  }
}

PARACORD_WIDTHS(void, DecodeBlocksWide,
                (std::span<const float> scales, std::span<const int8_t> in, float* out),
                DecodeBlocks(scales, in, out))

// Histogram bins of magnitudes: the exponent and 8 bits of the mantissa.
constexpr uint32_t kBinShift = 15;
constexpr size_t kBins = size_t{1} << 16;

uint32_t BinOf(float value) { return (std::bit_cast<uint32_t>(value) & kMagnitude) >> kBinShift; }

}  // namespace

void AddResidual(std::span<const float> gradient, std::span<const float> residual,
                 std::span<float> sum) {
  static const auto add = PICK_WIDTH(AddWide);
  add(gradient.data(), residual.data(), sum.data(), sum.size());
}

uint64_t Int8Bytes(uint64_t elements) {
  return (elements + kInt8Block - 1) / kInt8Block * sizeof(float) + elements;
}

bool EncodeInt8(std::span<float> values, std::span<char> out, uint64_t first, uint64_t count) {
  static const auto encode = PICK_WIDTH(EncodeBlocksWide);
  auto* const whole = reinterpret_cast<int8_t*>(out.data() + (out.size() - values.size()));
  char* const scales = out.data() + first / kInt8Block * sizeof(float);
  return encode(values.subspan(first, count), scales, whole + first);
}

void DecodeInt8(std::span<const float> scales, std::span<const int8_t> in, std::span<float> out) {
  static const auto decode = PICK_WIDTH(DecodeBlocksWide);
  decode(scales, in, out.data());
}

uint64_t TopKCount(uint64_t elements, double ratio) {
  const double wanted = std::ceil(static_cast<double>(elements) * ratio);
  return std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, elements);
}

bool EncodeTopK(std::span<float> values, std::span<char> out) {
  const uint64_t count = out.size() / kTopKEntryBytes;
  if (!AllFinite(values)) return false;
  std::vector<uint64_t> sizes(kBins, 0);
  for (const float value : values) ++sizes[BinOf(value)];
  // Selects all elements in bins above `least`, and the first `of_least` elements in bin `least`.
  size_t least = kBins - 1;
  uint64_t of_least = count;
  while (sizes[least] < of_least) of_least -= sizes[least--];
  char* index_out = out.data();
  char* value_out = out.data() + count * sizeof(uint32_t);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bin = BinOf(values[i]);
    if (bin < least || (bin == least && of_least == 0)) continue;
    if (bin == least) --of_least;
    const auto index = static_cast<uint32_t>(i);
    std::memcpy(index_out, &index, sizeof(index));
    std::memcpy(value_out, &values[i], sizeof(float));
    index_out += sizeof(index);
    value_out += sizeof(float);
    values[i] = 0;
  }
  return true;
}

}  // namespace paracord
