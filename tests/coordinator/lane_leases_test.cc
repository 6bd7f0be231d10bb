#include "coordinator/core/lane_leases.h"

#include <catch2/catch.hpp>

#include "tests/batches.h"

namespace paracord {
namespace {

constexpr uint64_t kLaneBatches = 100000;

SplitTable TableOfLanes(uint32_t lanes) {
  return SplitTable(0, kLaneBatches, PlanOfLanes(kLaneBatches, /*batch=*/1, lanes));
}

TEST_CASE("leases come to last two seconds of rounds, whatever a round takes") {
  for (const int64_t round_ms : {1, 7, 50, 400, 3000}) {
    CAPTURE(round_ms);
    RoundPace pace;
    pace.Begin(0, 0);
    CHECK(pace.rounds() == 2);
    uint32_t most = 0;
    for (uint32_t round = 1; round <= 3000; ++round) {
      const uint32_t before = pace.rounds();
      pace.Note(round, round * round_ms);
      CHECK(pace.rounds() <= 4 * before);
      most = std::max(most, pace.rounds());
    }
    const auto fit = static_cast<uint32_t>(2000 / round_ms);
    CHECK(pace.rounds() == std::clamp<uint32_t>(fit, 2, 1024));
    CHECK(most == pace.rounds());
  }
}

TEST_CASE("a rest of training, or a state that was lost, is no pace") {
  RoundPace pace;
  pace.Begin(0, 0);
  for (uint32_t round = 1; round <= 1000; ++round) pace.Note(round, round * 10);
  CHECK(pace.rounds() == 200);
  pace.Note(1003, 100000);
  CHECK(pace.rounds() == 200);
  pace.Note(500, 100010);
  CHECK(pace.rounds() == 200);
}

TEST_CASE("all leases end at one round, which moves on when less than half is left") {
  SplitTable table = TableOfLanes(2);
  LaneLeases leases;
  leases.Begin(table, 0);
  CHECK(leases.end() == 2);
  const std::vector<LaneTaker> takers = {{5, 0}, {6, 0}};
  leases.Deal(table, takers, 0);
  for (uint64_t lane = 0; lane < 2; ++lane) {
    table.GrantLane(lane, 10 + lane, 5 + lane, 0, leases.end());
  }
  table.Progress(*table.Find(10), 1);
  leases.MoveOn(table, 1000);
  CHECK(leases.end() == 3);  // two rounds beyond the lane ahead
  leases.MoveOn(table, 1100);
  CHECK(leases.end() == 3);
  CHECK(leases.StaysWith(0, 5));
  CHECK(leases.StaysWith(1, 6));
  leases.Deal(table, std::vector<LaneTaker>{{5, 0}}, 1200);
  CHECK_FALSE(leases.StaysWith(1, 6));
}

TEST_CASE("a free lane is its owner's for a moment, and then anybody's") {
  SplitTable table = TableOfLanes(2);
  LaneLeases leases;
  leases.Begin(table, 1000);
  const std::vector<LaneTaker> takers = {{5, 0}, {6, 0}};
  leases.Deal(table, takers, 1000);
  CHECK(leases.MayTake(0, 5, 1000));
  CHECK_FALSE(leases.MayTake(1, 5, 1000));
  CHECK_FALSE(leases.MayTake(1, 5, 1199));
  CHECK(leases.MayTake(1, 5, 1200));
  table.GrantLane(1, 11, 6, 1200, leases.end());
  leases.Deal(table, takers, 1250);
  CHECK_FALSE(leases.MayTake(1, 5, 5000));
  table.End(11);
  leases.Deal(table, takers, 5000);
  CHECK_FALSE(leases.MayTake(1, 5, 5100));
  CHECK_FALSE(leases.MayTake(7, 5, 9000));
}

}  // namespace
}  // namespace paracord
