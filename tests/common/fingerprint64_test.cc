#include "common/fingerprint64.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace paracord {
namespace {

constexpr uint64_t kBins62 = uint64_t{1} << 62;

std::string Text(size_t n) {
  std::string text(n, '\0');
  for (size_t i = 0; i < n; ++i) text[i] = static_cast<char>((i * 7 + n * 13) % 251 + 1);
  return text;
}

// Expected values: tf.strings.to_hash_bucket_fast(text, 2**62), TensorFlow 2.21.
TEST_CASE("Fingerprint64 is TensorFlow's for texts of every way of hashing") {
  const std::vector<std::pair<size_t, uint64_t>> table = {
      {0, 0x1ae16a3b2f90404f},  {1, 0x3310b17b5918018},   {3, 0x1516cec0a4421a1d},
      {4, 0x2d249c290c3abdc2},  {7, 0x72c1c3ab77b5bcf},   {8, 0x33f97906b00e0deb},
      {16, 0xef55245608ce281},  {17, 0x1c8abcad15db218f}, {32, 0x1acf72bd0a999a50},
      {33, 0x3e367f13702f5899}, {64, 0x1e423f2cc9a44d12}, {65, 0x1c6801d067a05648},
      {128, 0x225d4517c0b785dd}};
  for (const auto& [size, expected] : table) {
    INFO(size);
    CHECK(Fingerprint64(Text(size)) % kBins62 == expected);
  }
}

TEST_CASE("Fingerprint64 is TensorFlow's for every length below 300") {
  uint64_t fold = 0;
  for (size_t n = 0; n < 300; ++n) fold = fold * 31 + Fingerprint64(Text(n)) % kBins62;
  CHECK(fold == 0xdd74d411614eb380);
}

// Expected values: keras.layers.Hashing(1000) and HashedCrossing(1000) on the TensorFlow backend,
// Keras 3.15.
TEST_CASE("bins and crosses are those of Keras' layers") {
  CHECK(Fingerprint64("") % 1000 == 263);
  CHECK(Fingerprint64("HNL") % 1000 == 12);
  CHECK(Fingerprint64("Private") % 1000 == 771);
  CHECK(Fingerprint64("-5") % 1000 == 816);
  const auto cross = [](const std::vector<uint64_t>& features) {
    CrossFingerprint hash;
    for (const uint64_t feature : features) hash.Add(feature);
    return hash.value() % 1000;
  };
  CHECK(cross({Fingerprint64("HNL"), Fingerprint64("SFO")}) == 202);
  CHECK(cross({Fingerprint64("a"), Fingerprint64("b"), Fingerprint64("c")}) == 792);
  CHECK(cross({5, static_cast<uint64_t>(-7)}) == 368);
  CHECK(cross({5, Fingerprint64("x")}) == 306);
}

}  // namespace
}  // namespace paracord
