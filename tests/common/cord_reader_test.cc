#include "common/cord_reader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace paracord {
namespace {

TEST_CASE("floats are read in order however their bytes are cut, and in place where they can be") {
  constexpr size_t kCount = 16384;
  constexpr size_t kAtOnce = 1024;
  std::vector<float> floats(kCount);
  for (size_t i = 0; i < kCount; ++i) floats[i] = static_cast<float>(i) + 0.5f;
  const absl::string_view bytes(reinterpret_cast<const char*>(floats.data()), kCount * 4);
  // Pairs of the bytes of a chunk, and the number of 4096-byte reads that lie within one chunk.
  const auto [piece, in_place_expected] =
      GENERATE(std::pair<size_t, size_t>{4096, 16}, std::pair<size_t, size_t>{65536, 16},
               std::pair<size_t, size_t>{1001, 0}, std::pair<size_t, size_t>{6144, 11},
               std::pair<size_t, size_t>{32769, 15});
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    cord.Append(absl::MakeCordFromExternal(bytes.substr(at, piece), [](absl::string_view) {}));
  }
  CAPTURE(piece);
  CordReader<float> reader(cord);
  std::vector<float> buffer(kAtOnce);
  size_t in_place = 0;
  for (size_t at = 0; at < kCount; at += kAtOnce) {
    const std::span<const float> read = reader.Next(buffer);
    REQUIRE(std::equal(read.begin(), read.end(), floats.begin() + static_cast<long>(at)));
    in_place += read.data() != buffer.data() ? 1 : 0;
  }
  CHECK(in_place == in_place_expected);
}

}  // namespace
}  // namespace paracord
