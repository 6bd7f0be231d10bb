#include "common/half_float.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/fakes.h"

namespace paracord {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

uint16_t Bf16(float value) {
  uint16_t out = 0;
  FloatsToBf16({&value, 1}, {&out, 1});
  return out;
}

uint16_t F16(float value) {
  uint16_t out = 0;
  FloatsToF16({&value, 1}, {&out, 1});
  return out;
}

TEST_CASE("every 16-bit number becomes the float it stands for, and that one again") {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(all.size());
  std::vector<uint16_t> back(all.size());
  F16ToFloats(all, floats);
  FloatsToF16(floats, back);
  for (size_t i = 0; i < all.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const int mantissa = static_cast<int>(i & 1023);
    double expected = exponent == 0    ? std::ldexp(mantissa, -24)
                      : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                                       : std::ldexp(1024 + mantissa, exponent - 25);
    if ((i & 0x8000) != 0) expected = -expected;
    CAPTURE(i);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(floats[i]));
      REQUIRE((back[i] & 0x7c00) == 0x7c00);
      REQUIRE((back[i] & 0x3ff) != 0);
    } else {
      REQUIRE(static_cast<double>(floats[i]) == expected);
      REQUIRE(back[i] == all[i]);
    }
  }
  Bf16ToFloats(all, floats);
  FloatsToBf16(floats, back);
  for (size_t i = 0; i < all.size(); ++i) {
    REQUIRE(std::bit_cast<uint32_t>(floats[i]) == i << 16);
    if (!std::isnan(floats[i])) REQUIRE(back[i] == all[i]);
    if (std::isnan(floats[i])) REQUIRE((back[i] & 0x7f) != 0);
  }
}

TEST_CASE("conversion rounds to the nearest, ties to even") {
  CHECK(Bf16(1.0f) == 0x3f80);
  CHECK(Bf16(1.0f + 0x1p-8f) == 0x3f80);             // a tie goes to even
  CHECK(Bf16(1.0f + 0x1p-8f + 0x1p-20f) == 0x3f81);  // above the tie
  CHECK(Bf16(1.0f + 0x1.8p-7f) == 0x3f82);           // a tie goes up to even
  CHECK(Bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(Bf16(kInf) == 0x7f80);
  CHECK(Bf16(-kInf) == 0xff80);
  CHECK(Bf16(-0.0f) == 0x8000);
  CHECK(Bf16(std::bit_cast<float>(0x7f800001u)) == 0x7fc0);  // NaN stays NaN

  CHECK(F16(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(F16(1.0f + 0x1.8p-10f) == 0x3c02);
  CHECK(F16(65504.0f) == 0x7bff);
  CHECK(F16(65519.0f) == 0x7bff);
  CHECK(F16(65520.0f) == 0x7c00);  // halfway to 2^16, which float16 lacks
  CHECK(F16(-1e9f) == 0xfc00);
  CHECK(F16(kInf) == 0x7c00);
  CHECK(F16(0x1p-24f) == 1);
  CHECK(F16(0x1p-25f) == 0);  // a tie
  CHECK(F16(0x1.8p-25f) == 1);
  CHECK(F16(0x1.8p-24f) == 2);
  CHECK(F16(-0x1p-30f) == 0x8000);
  CHECK((F16(std::bit_cast<float>(0xff800001u)) & 0xfe00) == 0xfe00);
}

TEST_CASE("no float of any size is nearer to another 16-bit number than to the one it becomes") {
  std::vector<uint16_t> finite(0x7c00);
  for (size_t i = 0; i < finite.size(); ++i) finite[i] = static_cast<uint16_t>(i);
  std::vector<float> known(finite.size());
  F16ToFloats(finite, known);
  SeededRandom random(5);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random.Between(0x30000000, 0x477fefff));
    const float x = std::bit_cast<float>(bits);
    const uint16_t got = F16(x);
    CAPTURE(x);
    const auto distance = [&](size_t to) {
      return std::abs(static_cast<double>(known[to]) - static_cast<double>(x));
    };
    if (got > 0) REQUIRE(distance(got) <= distance(got - 1u));
    if (got + 1u < known.size()) REQUIRE(distance(got) <= distance(got + 1u));
  }
}

TEST_CASE("a value that is not finite is found among 16-bit numbers wherever it is") {
  for (const size_t size : {1u, 7u, 33u, 100u}) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<uint16_t> values(size, 0x3c00);
      CHECK(AllFiniteHalf(values, kF16Exponent));
      values[at] = 0xfc00;
      CHECK_FALSE(AllFiniteHalf(values, kF16Exponent));
      CHECK(AllFiniteHalf(values, kBf16Exponent));
      values[at] = 0x7fc0;
      CHECK_FALSE(AllFiniteHalf(values, kBf16Exponent));
    }
  }
}

}  // namespace
}  // namespace paracord
