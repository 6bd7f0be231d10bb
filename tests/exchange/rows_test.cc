// Row ids travel unchanged, and malformed ones are refused.
#include "exchange/rows.h"

#include <catch2/catch.hpp>
#include <limits>

namespace paracord {
namespace {

constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max();

TEST_CASE("ids of rows travel unchanged") {
  const RowIds ids = GENERATE(RowIds{}, RowIds{0}, RowIds{kGreatest},
                              RowIds{0, 1, 2, 1000, 1 << 20}, RowIds{5, kGreatest - 1, kGreatest});
  const RowSet rows = EncodeRows(ids);
  CHECK(rows.count() == ids.size());
  const absl::StatusOr<RowIds> decoded = DecodeRows(rows);
  REQUIRE(decoded.ok());
  CHECK(*decoded == ids);
}

TEST_CASE("neighbouring ids take a byte each") {
  RowIds ids;
  for (uint64_t id = 0; id < 1000; ++id) ids.push_back(id * 100);
  CHECK(EncodeRows(ids).ids().size() == 1000);
}

TEST_CASE("malformed ids of rows are refused") {
  RowSet rows = EncodeRows(RowIds{1, kGreatest});
  SECTION("more rows than there are bytes") { rows.set_count(kGreatest); }
  SECTION("an id is missing") { rows.set_count(3); }
  SECTION("bytes follow the last id") { rows.set_count(1); }
  SECTION("an id is cut off") { rows.mutable_ids()->pop_back(); }
  SECTION("an id follows the greatest") {
    rows.mutable_ids()->push_back(0);
    rows.set_count(3);
  }
  SECTION("an id repeats, or exceeds 64 bits") { rows = EncodeRows(RowIds{5, 5}); }
  CHECK(absl::IsInvalidArgument(DecodeRows(rows).status()));
}

}  // namespace
}  // namespace paracord
