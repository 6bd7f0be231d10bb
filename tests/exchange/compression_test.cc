#include "exchange/compression.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "exchange/encoding.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

std::vector<float> Noise(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> values(size);
  for (float& value : values) {
    value = static_cast<float>(random.Between(-1000000, 1000000)) * 1e-6f;
    value = value * value * value;
  }
  return values;
}

std::vector<float> Int8Decoded(const std::vector<char>& bytes, size_t elements) {
  const size_t scale_bytes = bytes.size() - elements;
  std::vector<float> scales(scale_bytes / sizeof(float));
  std::memcpy(scales.data(), bytes.data(), scale_bytes);
  std::vector<int8_t> whole(elements);
  std::memcpy(whole.data(), bytes.data() + scale_bytes, elements);
  std::vector<float> out(elements);
  DecodeInt8(scales, whole, out);
  return out;
}

TEST_CASE("no elements at all are encoded and decoded, without touching memory") {
  for (const Encoding encoding : {ENCODING_FLOAT32, ENCODING_BF16, ENCODING_F16}) {
    EncodeDense(encoding, {}, nullptr);  // UBSan reports copies from or to null
    DecodeDense(encoding, absl::Cord(), {});
  }
  CHECK(Int8Bytes(0) == 0);
}

TEST_CASE("int8 is within half a step of each block, and what it leaves is the difference") {
  for (const size_t size : {1u, 255u, 256u, 257u, 5000u}) {
    const std::vector<float> values = Noise(size, 7 + size);
    std::vector<float> rest = values;
    std::vector<char> bytes(Int8Bytes(size));
    REQUIRE(EncodeInt8(rest, bytes, 0, size));
    const std::vector<float> sent = Int8Decoded(bytes, size);
    for (size_t i = 0; i < size; ++i) {
      const auto block = values.begin() + static_cast<long>(i / kInt8Block * kInt8Block);
      const auto end = block + std::min<long>(256, values.end() - block);
      const float greatest = std::abs(*std::max_element(
          block, end, [](float a, float b) { return std::abs(a) < std::abs(b); }));
      CAPTURE(size, i);
      REQUIRE(std::abs(values[i] - sent[i]) <= greatest / 254 * 1.001f);
      REQUIRE(rest[i] == values[i] - sent[i]);
    }
  }
}

TEST_CASE("int8 piece by piece, in any order, is int8 of all at once") {
  const std::vector<float> values = Noise(5000, 3);
  std::vector<float> rest = values;
  std::vector<float> rest_of_pieces = values;
  std::vector<char> whole(Int8Bytes(values.size()));
  std::vector<char> pieces(whole.size(), 'x');
  REQUIRE(EncodeInt8(rest, whole, 0, rest.size()));
  for (const uint64_t first : {4096u, 0u, 2048u}) {
    const uint64_t count = std::min<uint64_t>(2048, values.size() - first);
    REQUIRE(EncodeInt8(rest_of_pieces, pieces, first, count));
  }
  CHECK(pieces == whole);
  CHECK(rest_of_pieces == rest);
}

TEST_CASE("int8 of zeros and of the smallest numbers sends zeros and keeps them") {
  std::vector<float> values(300, 0.0f);
  values[7] = 1e-38f;
  std::vector<float> rest = values;
  std::vector<char> bytes(Int8Bytes(300), 'x');
  REQUIRE(EncodeInt8(rest, bytes, 0, rest.size()));
  CHECK(Int8Decoded(bytes, 300) == std::vector<float>(300, 0.0f));
  CHECK(rest == values);
}

TEST_CASE("what is not finite cannot be compressed") {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {0u, 299u}) {
      std::vector<float> values(300, 1.0f);
      values[at] = bad;
      std::vector<char> int8(Int8Bytes(300));
      std::vector<char> top(8 * 3);
      std::vector<float> copy = values;
      CHECK_FALSE(EncodeInt8(copy, int8, 0, copy.size()));
      CHECK_FALSE(EncodeTopK(values, top));
    }
  }
}

TEST_CASE("top_k sends the greatest, in order, and keeps the others") {
  for (const size_t size : {1u, 2u, 1000u, 70000u}) {
    for (const double ratio : {1e-9, 0.01, 0.37, 1.0}) {
      const std::vector<float> values = Noise(size, size);
      std::vector<float> rest = values;
      const uint64_t count = TopKCount(size, ratio);
      REQUIRE(count >= 1);
      REQUIRE(count <= size);
      std::vector<char> bytes(count * kTopKEntryBytes);
      REQUIRE(EncodeTopK(rest, bytes));
      std::vector<uint32_t> indices(count);
      std::vector<float> sent(count);
      std::memcpy(indices.data(), bytes.data(), count * 4);
      std::memcpy(sent.data(), bytes.data() + count * 4, count * 4);
      CAPTURE(size, ratio);
      REQUIRE(std::is_sorted(indices.begin(), indices.end()));
      REQUIRE(std::adjacent_find(indices.begin(), indices.end()) == indices.end());
      float least = std::numeric_limits<float>::infinity();
      for (size_t i = 0; i < count; ++i) {
        REQUIRE(indices[i] < size);
        REQUIRE(sent[i] == values[indices[i]]);
        REQUIRE(rest[indices[i]] == 0.0f);
        least = std::min(least, std::abs(sent[i]));
      }
      size_t kept = 0;
      for (size_t i = 0; i < size; ++i) {
        if (rest[i] == 0.0f) continue;
        ++kept;
        REQUIRE(rest[i] == values[i]);
        REQUIRE(std::abs(rest[i]) <= least * 1.004f);
      }
      REQUIRE(kept <= size - count);
    }
  }
}

TEST_CASE("with error feedback all of a gradient arrives in the end") {
  const std::vector<float> gradient = Noise(4096, 3);
  const std::vector<float> zeros(4096, 0.0f);
  for (const bool top : {true, false}) {
    std::vector<float> residual(4096, 0.0f);
    std::vector<double> arrived(4096, 0.0);
    std::vector<float> sum(4096);
    for (int step = 0; step < 60; ++step) {
      AddResidual(step == 0 ? gradient : zeros, residual, sum);
      const std::vector<float> before = sum;
      std::vector<char> bytes(top ? TopKCount(4096, 0.02) * 8 : Int8Bytes(4096));
      REQUIRE((top ? EncodeTopK(sum, bytes) : EncodeInt8(sum, bytes, 0, sum.size())));
      for (size_t i = 0; i < sum.size(); ++i) {
        arrived[i] += static_cast<double>(before[i]) - static_cast<double>(sum[i]);
      }
      residual.swap(sum);
    }
    for (size_t i = 0; i < gradient.size(); ++i) {
      REQUIRE(std::abs(arrived[i] - static_cast<double>(gradient[i])) < 1e-6);
    }
  }
}

}  // namespace
}  // namespace paracord
