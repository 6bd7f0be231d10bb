#include "coordinator/core/batch_ranges.h"

#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

namespace paracord {
namespace {

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

TEST_CASE("a set of ranges takes each number once, and keeps neighbours together") {
  BatchRanges ranges;
  std::set<uint64_t> all;
  uint64_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint64_t number = (random >> 33) % 300;
    CHECK(ranges.Has(number) == all.contains(number));
    CHECK(ranges.Add(number) == all.insert(number).second);
    CHECK(ranges.size() == all.size());
  }
  uint64_t numbers = 0, end = 0;
  for (const auto& [first, behind] : ranges.ranges()) {
    CHECK((end == 0 || first > end));  // ranges do not touch
    for (uint64_t n = first; n < behind; ++n) CHECK(all.contains(n));
    numbers += behind - first;
    end = behind;
  }
  CHECK(numbers == all.size());
}

TEST_CASE("a set has so many ranges at most") {
  BatchRanges ranges;
  for (uint64_t i = 0; i < BatchRanges::kRangesMax; ++i) REQUIRE(ranges.Add(2 * i));
  CHECK_FALSE(ranges.Add(2 * BatchRanges::kRangesMax));
  CHECK(ranges.Add(1));  // joins two ranges
  CHECK(ranges.Add(2 * BatchRanges::kRangesMax));
  CHECK(ranges.size() == BatchRanges::kRangesMax + 2);
}

TEST_CASE("ranges that are no set are refused") {
  BatchRanges ranges;
  CHECK(ranges.Assign({{0, 2}, {5, 6}}));
  CHECK(ranges.size() == 3);
  CHECK(ranges.ranges() == Ranges{{0, 2}, {5, 6}});
  for (const Ranges& bad : {Ranges{{2, 2}}, Ranges{{3, 1}}, Ranges{{0, 2}, {2, 3}},
                            Ranges{{4, 5}, {0, 1}}, Ranges{{0, 5}, {4, 6}}}) {
    CHECK_FALSE(ranges.Assign(bad));
    CHECK(ranges.size() == 0);
  }
}

}  // namespace
}  // namespace paracord
