#include "store/hot_ids.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/counter_random.h"

namespace paracord {
namespace {

TEST_CASE("the ids that most pushes name are found among many that come once") {
  HotIds hot;
  uint64_t draw = 0;
  for (int push = 0; push < 4000; ++push) {
    std::set<uint64_t> ids = {7};                      // in each
    if (push % 2 == 0) ids.insert(uint64_t{1} << 63);  // in every other one
    while (ids.size() < 50) ids.insert(RandomBits(1, draw++) % 1000000 + 1000);
    hot.Push(std::vector<uint64_t>(ids.begin(), ids.end()));
  }
  const std::vector<HotIds::Hot> top = hot.Top(2);
  REQUIRE(top.size() == 2);
  CHECK(top[0].id == 7);
  CHECK(top[0].share == Approx(1).margin(0.3));
  CHECK(top[1].id == uint64_t{1} << 63);
  CHECK(top[1].share == Approx(0.5).margin(0.2));
  CHECK(hot.Top(64).size() < 10);
}

TEST_CASE("a table without pushes has no hot ids") {
  HotIds hot;
  CHECK(hot.Top(3).empty());
  hot.Push({});
  hot.Push(std::vector<uint64_t>{1, 2, 3});
  CHECK(hot.Top(3).empty());
}

}  // namespace
}  // namespace paracord
