#include "coordinator/core/lane_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace paracord {
namespace {

using ByLane = std::vector<uint64_t>;

// Deals lanes to equally fast sessions.
ByLane DealtOut(const ByLane& holders, const ByLane& sessions) {
  std::vector<LaneTaker> takers;
  for (const uint64_t session : sessions) takers.push_back({session, 0});
  return ShareLanes(holders, takers);
}

uint64_t CountOf(const ByLane& lanes, uint64_t session) {
  return static_cast<uint64_t>(std::ranges::count(lanes, session));
}

TEST_CASE("sessions that are equally fast get equally many lanes, in runs of neighbouring lanes") {
  CHECK(DealtOut({0, 0, 0, 0}, {7}) == ByLane{7, 7, 7, 7});
  CHECK(DealtOut({0, 0, 0, 0}, {7, 8}) == ByLane{7, 7, 8, 8});
  CHECK(DealtOut({0, 0, 0, 0}, {7, 8, 9}) == ByLane{7, 7, 8, 9});
  CHECK(DealtOut({0, 0}, {7, 8, 9}) == ByLane{7, 8});  // session 9 stands by
  CHECK(DealtOut({0, 0}, {}) == ByLane{0, 0});
  CHECK(DealtOut({}, {7}).empty());
}

TEST_CASE("who comes gets lanes where a round becomes shorter by it, and the others keep theirs") {
  CHECK(DealtOut({7, 7, 7, 7}, {7, 8}) == ByLane{7, 7, 8, 8});
  // A third session would not shorten the round: another would still have two lanes.
  CHECK(DealtOut({7, 7, 8, 8}, {7, 8, 9}) == ByLane{7, 7, 8, 8});
  CHECK(DealtOut({7, 7, 8, 8}, {7, 8, 9, 10}) == ByLane{7, 9, 8, 10});
  CHECK(DealtOut({7, 7, 8, 9}, {7, 8, 9, 10}) == ByLane{7, 10, 8, 9});
  CHECK(DealtOut({7, 10, 8, 9}, {7, 8, 9, 10, 11}) == ByLane{7, 10, 8, 9});
}

TEST_CASE("the lanes of one that died go to who stands by, and else to the others") {
  CHECK(DealtOut({7, 0, 9, 10}, {7, 9, 10, 11}) == ByLane{7, 11, 9, 10});
  CHECK(DealtOut({7, 7, 0, 0}, {7}) == ByLane{7, 7, 7, 7});
  CHECK(DealtOut({7, 7, 0, 9}, {7, 9}) == ByLane{7, 7, 9, 9});
  // A resting session loses its lanes.
  CHECK(DealtOut({7, 7, 8, 8}, {8}) == ByLane{8, 8, 8, 8});
}

TEST_CASE("who computes slowly gets fewer lanes") {
  const auto shared = [](const ByLane& holders, std::vector<LaneTaker> takers) {
    return ShareLanes(holders, takers);
  };
  const ByLane even = {7, 7, 7, 7, 8, 8, 8, 8};
  // A session four times slower: 7 lanes and 1 take a time of 7, 4 and 4 take 16.
  const ByLane uneven = shared(even, {{7, 1}, {8, 4}});
  CHECK(CountOf(uneven, 8) == 1);
  CHECK(shared(uneven, {{7, 1}, {8, 4}}) == uneven);
  // A tenth slower is not worth a move. Regained speed brings the lanes back.
  CHECK(shared(even, {{7, 1}, {8, 1.1}}) == even);
  CHECK(CountOf(shared(uneven, {{7, 1}, {8, 1}}), 8) == 4);
  // So slow that a round would wait for any lane of this session.
  CHECK(CountOf(shared({7, 8, 7, 8}, {{7, 1}, {8, 20}}), 8) == 0);
  // A new session counts as fast as the rest.
  CHECK(CountOf(shared({7, 7, 7, 7}, {{7, 3}, {8, 0}}), 8) == 2);
}

TEST_CASE("who has several devices gets a lane for each of them in the time of one") {
  const ByLane none(8, 0);
  const ByLane shares = ShareLanes(none, std::vector<LaneTaker>{{7, 1, 3}, {8, 1, 1}});
  CHECK(CountOf(shares, 7) == 6);
  CHECK(CountOf(shares, 8) == 2);
  CHECK(ShareLanes({none.begin(), 4}, std::vector<LaneTaker>{{7, 1, 4}, {8, 4, 1}}) ==
        ByLane{7, 7, 7, 7});
  // Two devices take equally long for four lanes and for three.
  CHECK(ShareLanes(ByLane{7, 7, 7, 7, 8, 8}, std::vector<LaneTaker>{{7, 1, 2}, {8, 1, 1}}) ==
        ByLane{7, 7, 7, 7, 8, 8});
}

TEST_CASE("however lanes lie, no other deal is much faster, and nothing moves without need") {
  std::mt19937 random(7);
  const auto draw = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 2000; ++round) {
    ByLane holders(1 + draw(12), 0);
    for (uint64_t& holder : holders) holder = draw(6);  // 0: no holder
    std::vector<LaneTaker> takers;
    for (uint64_t session = 1; session < 8; ++session) {
      if (draw(2) == 0) takers.push_back({session, 1 + static_cast<double>(draw(5))});
    }
    const ByLane shares = ShareLanes(holders, takers);
    REQUIRE(shares.size() == holders.size());
    if (takers.empty()) continue;
    uint64_t runs = 0;
    for (uint64_t lane = 0; lane < shares.size(); ++lane) {
      REQUIRE(std::ranges::find(takers, shares[lane], &LaneTaker::session) != takers.end());
      if (lane == 0 || shares[lane] != shares[lane - 1]) ++runs;
    }
    uint64_t sharers = 0, fit = 0;
    double longest = 0;
    for (const LaneTaker& each : takers) {
      const uint64_t lanes = CountOf(shares, each.session);
      sharers += lanes > 0 ? 1 : 0;
      longest = std::max(longest, static_cast<double>(lanes) * each.seconds);
    }
    REQUIRE(runs == sharers);
    // The lanes that all sessions compute in nine tenths of the time must be too few.
    for (const LaneTaker& each : takers) {
      fit += static_cast<uint64_t>(std::ceil(0.9 * longest / each.seconds)) - 1;
    }
    REQUIRE(fit < holders.size());
    REQUIRE(ShareLanes(shares, takers) == shares);
  }
}

}  // namespace
}  // namespace paracord
