// Workers of a synchronous job on two ps die in the middle of a round.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/sync_ps.h"

namespace paracord {
namespace {

using Texts = std::vector<std::string>;

TEST_CASE("workers go from state to state, and none begins a round before all have the last one") {
  SyncCluster cluster;
  const auto first = cluster.Start(), second = cluster.Start();
  cluster.Grant(*first, 1, 0, 0);
  cluster.Grant(*second, 2, 1, 0);
  for (int i = 0; i < 20; ++i) cluster.AnswerAll();
  for (const SyncPs& ps : cluster.ps) {
    CHECK(ps.state() == kSyncRounds);
    CHECK(ps.entered().size() == kSyncLanes * kSyncRounds);
  }
  CHECK(first->reports.back() == "1 ended at 4 PROBLEM_NONE");
  CHECK(second->reports.back() == "2 ended at 4 PROBLEM_NONE");
}

TEST_CASE("a worker with all lanes computes round after round") {
  SyncCluster cluster;
  const auto worker = cluster.Start();
  cluster.Grant(*worker, 1, 0, 0);
  cluster.Grant(*worker, 2, 1, 0);
  for (int i = 0; i < 20; ++i) cluster.AnswerAll();
  CHECK(cluster.ps[0].state() == kSyncRounds);
  CHECK(cluster.ps[1].state() == kSyncRounds);
}

TEST_CASE("nothing is counted twice where two workers have one lane") {
  SyncCluster cluster;
  const auto first = cluster.Start(), second = cluster.Start();
  for (uint64_t lane = 0; lane < kSyncLanes; ++lane) {
    cluster.Grant(*first, 1 + lane, lane, 0);
    cluster.Grant(*second, 3 + lane, lane, 0);
  }
  for (int i = 0; i < 40; ++i) {
    cluster.Answer(i % 2);
    cluster.Answer(i % 2);
    if (i % 5 == 0) cluster.EndWaits();
  }
  CHECK(cluster.ps[0].state() == kSyncRounds);
  CHECK(cluster.ps[1].state() == kSyncRounds);
}

// A worker died after its last push had reached only one ps, which is a round ahead now. The
// coordinator grants the lane to the waiting worker.
struct TornRound {
  explicit TornRound(bool keeps_before, uint32_t which) : cluster(keeps_before), reached(which) {
    survivor = cluster.Start();
    auto dying = cluster.Start();
    cluster.Grant(*survivor, 1, 0, 0);
    cluster.Grant(*dying, 2, 1, 0);
    cluster.AnswerAll();  // pulls of state 0
    cluster.ps[1 - reached].Lose(dying->links[1 - reached]);
    cluster.AnswerAll();
    dying->trainer.reset();
    CHECK(cluster.ps[reached].state() == 1);
    CHECK(cluster.ps[1 - reached].state() == 0);
    cluster.EndWaits();
    CHECK(survivor->reports.back() == "1 at 1 PROBLEM_NONE");
    cluster.AnswerAll();
    cluster.Grant(*survivor, 3, 1, 0);
    cluster.EndWaits();
  }

  SyncCluster cluster;
  const uint32_t reached;
  std::unique_ptr<SyncCluster::OneWorker> survivor;
};

TEST_CASE("a lane of a worker that died between its pushes is computed on the state before") {
  TornRound test(/*keeps_before=*/true, GENERATE(0u, 1u));
  for (int i = 0; i < 30; ++i) {
    test.cluster.AnswerAll();
    if (i % 5 == 0) test.cluster.EndWaits();
  }
  const Texts further = test.cluster.ps[test.reached].entered(),
              behind = test.cluster.ps[1 - test.reached].entered();
  CHECK(Texts(further.begin(), further.begin() + 3) ==
        Texts{"0.0 PUSH_TAKEN", "1.0 PUSH_APPLIED", "1.0 PUSH_ALREADY_APPLIED"});
  CHECK(Texts(behind.begin(), behind.begin() + 2) == Texts{"0.0 PUSH_TAKEN", "1.0 PUSH_APPLIED"});
  for (const SyncPs& ps : test.cluster.ps) CHECK(ps.state() == kSyncRounds);
  CHECK(test.survivor->reports.back() == "3 ended at 4 PROBLEM_NONE");
}

TEST_CASE("a lane ends with a gap where a ps no longer has the state before its round") {
  TornRound test(/*keeps_before=*/false, GENERATE(0u, 1u));
  test.cluster.AnswerAll();
  CHECK(test.survivor->reports.back() == "3 ended at 0 PROBLEM_GAP");
}

}  // namespace
}  // namespace paracord
