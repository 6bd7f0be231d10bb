// Row ids travel unchanged, and malformed ones are refused.
#include "exchange/rows.h"

#include <catch2/catch.hpp>
#include <limits>

namespace paracord {
namespace {

constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max();

struct EncodedIds {
  uint64_t count = 0;
  std::string bytes;
};

EncodedIds EncodeIds(const RowIds& ids) {
  RowSet set;
  std::vector<PieceView> pieces;
  NameRows(ids, 7, Piece::PULL_IDS, set, pieces);
  std::string bytes;
  for (const PieceView& piece : pieces) {
    CHECK(piece.partition == 7);
    CHECK(piece.part == Piece::PULL_IDS);
    CHECK(piece.offset == bytes.size());
    bytes += std::string(piece.data);
  }
  CHECK(set.bytes() == bytes.size());
  return {set.count(), bytes};
}

// Returns the bytes in chunks of `size` bytes, as pieces may cut them.
absl::Cord CutIds(const std::string& bytes, size_t size) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += size) {
    auto* chunk = new std::string(bytes.substr(at, size));
    cord.Append(absl::MakeCordFromExternal(*chunk, [chunk](absl::string_view) { delete chunk; }));
  }
  return cord;
}

TEST_CASE("ids of rows travel unchanged, wherever their bytes are cut") {
  const RowIds ids = GENERATE(RowIds{}, RowIds{0}, RowIds{kGreatest},
                              RowIds{0, 1, 2, 1000, 1 << 20}, RowIds{5, kGreatest - 1, kGreatest});
  const EncodedIds encoded = EncodeIds(ids);
  CHECK(encoded.count == ids.size());
  for (const size_t size : {1u, 2u, 3u, 1000u}) {
    const absl::StatusOr<RowIds> decoded = DecodeRows(encoded.count, CutIds(encoded.bytes, size));
    REQUIRE(decoded.ok());
    CHECK(*decoded == ids);
  }
}

TEST_CASE("neighbouring ids take a byte each") {
  RowIds ids;
  for (uint64_t id = 0; id < 1000; ++id) ids.push_back(id * 100);
  CHECK(EncodeIds(ids).bytes.size() == 1000);
}

TEST_CASE("malformed ids of rows are refused") {
  auto [count, bytes] = EncodeIds(RowIds{1, kGreatest});
  SECTION("more rows than there are bytes") { count = kGreatest; }
  SECTION("an id is missing") { count = 3; }
  SECTION("bytes follow the last id") { count = 1; }
  SECTION("an id is cut off") { bytes.pop_back(); }
  SECTION("a number of eleven bytes") { bytes = std::string(11, '\x80'); }
  SECTION("an id follows the greatest") {
    bytes.push_back(0);
    count = 3;
  }
  SECTION("an id repeats, or exceeds 64 bits") {
    const EncodedIds repeated = EncodeIds(RowIds{5, 5});
    count = repeated.count;
    bytes = repeated.bytes;
  }
  CHECK(absl::IsInvalidArgument(DecodeRows(count, absl::Cord(bytes)).status()));
}

}  // namespace
}  // namespace paracord
