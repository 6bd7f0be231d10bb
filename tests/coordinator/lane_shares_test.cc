#include "coordinator/core/lane_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace paracord {
namespace {

using ByLane = std::vector<uint64_t>;

TEST_CASE("lanes are dealt out evenly, in runs of neighbouring lanes") {
  CHECK(ShareLanes(ByLane{0, 0, 0, 0}, ByLane{7}) == ByLane{7, 7, 7, 7});
  CHECK(ShareLanes(ByLane{0, 0, 0, 0}, ByLane{7, 8}) == ByLane{7, 7, 8, 8});
  CHECK(ShareLanes(ByLane{0, 0, 0, 0}, ByLane{7, 8, 9}) == ByLane{7, 7, 8, 9});
  CHECK(ShareLanes(ByLane{0, 0}, ByLane{7, 8, 9}) == ByLane{7, 8});  // one stands by
  CHECK(ShareLanes(ByLane{0, 0}, ByLane{}) == ByLane{0, 0});
  CHECK(ShareLanes(ByLane{}, ByLane{7}).empty());
}

TEST_CASE("who comes gets lanes of those that have most, and the others keep theirs") {
  CHECK(ShareLanes(ByLane{7, 7, 7, 7}, ByLane{7, 8}) == ByLane{7, 7, 8, 8});
  CHECK(ShareLanes(ByLane{7, 7, 8, 8}, ByLane{7, 8, 9}) == ByLane{7, 7, 8, 9});
  CHECK(ShareLanes(ByLane{7, 7, 8, 9}, ByLane{7, 8, 9, 10}) == ByLane{7, 10, 8, 9});
  CHECK(ShareLanes(ByLane{7, 10, 8, 9}, ByLane{7, 8, 9, 10, 11}) == ByLane{7, 10, 8, 9});
}

TEST_CASE("the lanes of one that died go to who stands by, and else to the others") {
  CHECK(ShareLanes(ByLane{7, 0, 9, 10}, ByLane{7, 9, 10, 11}) == ByLane{7, 11, 9, 10});
  CHECK(ShareLanes(ByLane{7, 7, 0, 0}, ByLane{7}) == ByLane{7, 7, 7, 7});
  CHECK(ShareLanes(ByLane{7, 7, 0, 9}, ByLane{7, 9}) == ByLane{7, 7, 9, 9});
  // A holder that is to have none, because it rests, gives up its lanes.
  CHECK(ShareLanes(ByLane{7, 7, 8, 8}, ByLane{8}) == ByLane{8, 8, 8, 8});
}

TEST_CASE("however lanes lie, each taker gets its share in one run, and it stays there") {
  std::mt19937 random(7);
  const auto draw = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 2000; ++round) {
    ByLane holders(1 + draw(12), 0);
    for (uint64_t& holder : holders) holder = draw(6);  // 0: nobody
    ByLane takers;
    for (uint64_t session = 1; session < 8; ++session) {
      if (draw(2) == 0) takers.push_back(session);
    }
    const ByLane shares = ShareLanes(holders, takers);
    REQUIRE(shares.size() == holders.size());
    if (takers.empty()) continue;
    std::map<uint64_t, uint64_t> count;
    uint64_t runs = 0;
    for (uint64_t lane = 0; lane < shares.size(); ++lane) {
      REQUIRE(std::ranges::find(takers, shares[lane]) != takers.end());
      ++count[shares[lane]];
      if (lane == 0 || shares[lane] != shares[lane - 1]) ++runs;
    }
    const uint64_t sharers = std::min(takers.size(), holders.size());
    REQUIRE(count.size() == sharers);
    REQUIRE(runs == sharers);
    for (const auto& [session, lanes] : count) {
      REQUIRE(lanes >= holders.size() / sharers);
      REQUIRE(lanes <= (holders.size() + sharers - 1) / sharers);
    }
    REQUIRE(ShareLanes(shares, takers) == shares);
  }
}

}  // namespace
}  // namespace paracord
