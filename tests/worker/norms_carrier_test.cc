// A worker carries the norms of a round between ps, whichever worker is left.
#include "worker/norms_carrier.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "tests/worker/sync_ps.h"

namespace paracord {
namespace {

PartitionState Telling(uint32_t partition, uint64_t round, double squares) {
  PartitionState state;
  state.set_partition(partition);
  state.set_squares_round(round);
  state.set_squares(squares);
  return state;
}

TEST_CASE("norms are known once all partitions have told the squares of one round") {
  NormsCarrier carrier(3, 2);
  CHECK_FALSE(carrier.Begin().has_value());
  carrier.Told(1, Telling(2, 5, 4));
  carrier.Told(0, Telling(1, 5, 2));
  CHECK_FALSE(carrier.End(true));  // one partition has told nothing
  CHECK_FALSE(carrier.Begin().has_value());
  for (const uint64_t round : {4u, 5u}) {
    for (const uint32_t id : {2u, 0u, 1u})
      carrier.Told(id == 2, Telling(id, id == 0 ? round : 5, id));
    CHECK_FALSE(carrier.End(false));  // no ps waits for norms
    CHECK_FALSE(carrier.Begin().has_value());
    for (const uint32_t id : {2u, 0u, 1u}) {
      carrier.Told(id == 2, Telling(id, id == 0 ? round : 5, id + 1.0));
    }
    CHECK(carrier.End(true) == (round == 5));
    if (round == 4) CHECK_FALSE(carrier.Begin().has_value());
  }
  const std::optional<RoundNorms> norms = carrier.Begin();
  REQUIRE(norms.has_value());
  CHECK(norms->round() == 5);
  CHECK(std::vector<double>(norms->squares().begin(), norms->squares().end()) ==
        std::vector<double>{3, 3});
  // A ps that asks again gets the norms again, but not at once.
  for (const uint32_t id : {0u, 1u, 2u}) carrier.Told(id == 2, Telling(id, 5, id));
  CHECK_FALSE(carrier.End(true));
  CHECK(carrier.Begin().has_value());
}

TEST_CASE("squares that are none are not carried") {
  for (const double odd : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    NormsCarrier carrier(1, 1);
    carrier.Begin();
    carrier.Told(0, Telling(0, 5, odd));
    CHECK_FALSE(carrier.End(true));
    CHECK_FALSE(carrier.Begin().has_value());
  }
}

TEST_CASE("workers carry norms between ps, also of the last round, when no lease is left") {
  SyncCluster cluster;
  cluster.ClipByNorm();
  const auto first = cluster.Start(), second = cluster.Start();
  cluster.Grant(*first, 1, 0, 0);
  cluster.Grant(*second, 2, 1, 0);
  for (int i = 0; i < 40; ++i) cluster.AnswerAll();
  for (const SyncPs& ps : cluster.ps) CHECK(ps.state() == kSyncRounds);
  CHECK(first->reports.back() == "1 ended at 4 PROBLEM_NONE");
  CHECK(second->reports.back() == "2 ended at 4 PROBLEM_NONE");
  CHECK((first->trainer->Idle() && second->trainer->Idle()));
}

TEST_CASE("one worker with all lanes carries the norms of its own rounds") {
  SyncCluster cluster;
  cluster.ClipByNorm();
  const auto worker = cluster.Start();
  cluster.Grant(*worker, 1, 0, 0);
  cluster.Grant(*worker, 2, 1, 0);
  for (int i = 0; i < 60; ++i) cluster.AnswerAll();
  for (const SyncPs& ps : cluster.ps) CHECK(ps.state() == kSyncRounds);
}

TEST_CASE("norms that reached one ps alone are carried again by another worker") {
  SyncCluster cluster;
  cluster.ClipByNorm();
  const auto first = cluster.Start();
  auto dying = cluster.Start();
  cluster.Grant(*first, 1, 0, 0);
  cluster.Grant(*dying, 2, 1, 0);
  cluster.AnswerAll();  // pulls of state 0
  cluster.AnswerAll();  // pushes
  cluster.ps[1].Lose(dying->links[1]);
  cluster.ps[0].Lose(first->links[0]);
  cluster.ps[1].Lose(first->links[1]);
  cluster.Answer(0);
  dying->trainer.reset();
  CHECK(cluster.ps[0].state() == 1);
  CHECK(cluster.ps[1].state() == 0);
  const auto another = cluster.Start();
  cluster.Grant(*another, 3, 1, 0);
  for (int i = 0; i < 10; ++i) cluster.AnswerAll();
  CHECK(cluster.ps[1].state() == 1);
}

TEST_CASE("of several holders of a partition the one that is further says the squares") {
  for (const bool further_first : {true, false}) {
    NormsCarrier carrier(2, 1);
    carrier.Begin();
    carrier.Told(0, Telling(1, 5, 2));
    carrier.Told(0, Telling(0, further_first ? 5 : 4, further_first ? 3 : 9));
    carrier.Told(0, Telling(0, further_first ? 4 : 5, further_first ? 9 : 3));
    CHECK(carrier.End(true));
    const std::optional<RoundNorms> norms = carrier.Begin();
    REQUIRE(norms.has_value());
    CHECK(norms->round() == 5);
    CHECK(norms->squares(0) == 5);
  }
}

}  // namespace
}  // namespace paracord
