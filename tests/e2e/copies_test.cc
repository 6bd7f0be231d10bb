// Partitions have second holders, which go on when a ps is killed that nobody starts again. In
// synchronous training they take part in every round.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "e2e/bits_job.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/process.h"

namespace paracord::e2e {
namespace {

nlohmann::json CopiedJob(uint64_t steps) {
  return {{"steps", steps},
          {"copies", 1},
          {"partitioner", {{"kind", "fixed_shards"}, {"shards", 6}}},
          {"checkpoint", {{"every_seconds", 0.5}, {"keep", 2}}}};
}

// Waits until every partition has a second ps that has prepared it.
bool WaitForCopies(Cluster& cluster) {
  return WaitUntil(60000, [&] {
    const nlohmann::json status = cluster.Status();
    const nlohmann::json copies =
        status.is_object() ? status.value("copies", nlohmann::json()) : nlohmann::json();
    return copies.is_object() && copies.at("with_both") == copies.at("partitions");
  });
}

TEST_CASE("a job whose ps is killed for good goes on with copies, and applies every batch once") {
  constexpr uint64_t kSteps = 4000;
  Cluster cluster({.ps = 3, .batch_ms = 5, .job = CopiedJob(kSteps)});
  cluster.StartAll();
  REQUIRE(WaitForCopies(cluster));
  const auto killed = cluster.TakeOut("ps:1");
  killed->Signal(SIGKILL);
  killed->Wait(10000);
  const uint64_t then = cluster.BatchesDone();
  CHECK(cluster.WaitForBatches(then + 50, 60000));
  CHECK(cluster.Status().at("copies").at("promotions") == 1);
  // The two that are left hold all of it, and after a while twice.
  CHECK(WaitForCopies(cluster));
  const auto second = cluster.TakeOut("ps:0");
  second->Signal(SIGKILL);
  second->Wait(10000);
  CHECK(cluster.WaitForBatches(cluster.BatchesDone() + 50, 60000));
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
}

TEST_CASE("a job with copies applies every batch once through kills of everybody") {
  constexpr uint64_t kSteps = 6000;
  Cluster cluster({.ps = 3, .batch_ms = 5, .job = CopiedJob(kSteps)});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster, {{"ps:0", "ps:1", "ps:2", "coordinator", "worker:0"}, 25, kSteps, 1300});
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
}

constexpr int kHotEpochs = 60;

// A synchronous job on three ps, with copies.
BitsCase HotJob(BitsCase of) {
  of.job["epochs"] = kHotEpochs;
  of.job["copies"] = 1;
  return of;
}

// The bits of the same job on one ps, without copies, and undisturbed.
std::string UndisturbedBits(BitsCase of) {
  of.job["copies"] = 0;
  of.job["epochs"] = kHotEpochs;
  Cluster cluster({.ps = 1, .workers = 2, .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  REQUIRE(cluster.Finish(120000) == 0);
  return BitsOf(cluster.dir());
}

TEST_CASE("a synchronous job whose ps is killed for good goes on with copies, and loads nothing") {
  const BitsCase of = HotJob(GENERATE(Perceptron(), GrowingTable()));
  Cluster cluster({.ps = 3, .workers = 2, .batch_ms = 10, .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(60));
  const nlohmann::json copies = cluster.Status().at("copies");
  CHECK(copies.at("with_both") == copies.at("partitions"));
  const auto killed = cluster.TakeOut("ps:1");
  const uint64_t state = cluster.Status().at("rounds").at("state_max");
  killed->Signal(SIGKILL);
  killed->Wait(10000);
  const uint64_t then = cluster.BatchesDone();
  CHECK(cluster.WaitForBatches(then + 8, 60000));
  // What the ps told last may be a second old.
  CHECK(WaitUntil(60000, [&] { return cluster.Status().at("rounds").at("state_min") > state; }));
  CHECK(cluster.Status().at("copies").at("promotions") == 1);
  REQUIRE(cluster.Finish(120000) == 0);
  const nlohmann::json summary = cluster.Summary();
  CHECK(summary.at("rounds").at("rollbacks") == 0);
  CHECK(cluster.Logged("coordinator", "ps:1 is lost"));
  CHECK_FALSE(cluster.Logged("coordinator", "all parameter servers load"));
  CHECK(BitsOf(cluster.dir()) == UndisturbedBits(of));
}

TEST_CASE("the death of a ps costs a synchronous job with copies one round at most") {
  const BitsCase of = HotJob(Perceptron());
  // With three ps those that are left become second holders for each other after a while, for which
  // training stops once more; of two, one is left.
  const uint32_t ps = GENERATE(2u, 3u);
  Cluster cluster({.ps = ps, .workers = 2, .batch_ms = ps == 3 ? 40 : 10, .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(60));
  const auto killed = cluster.TakeOut("ps:1");
  killed->Signal(SIGKILL);
  killed->Wait(10000);
  REQUIRE(cluster.Finish(120000) == 0);
  CHECK(cluster.Logged("coordinator", "ps:1 is lost"));
  CHECK(cluster.Logged("coordinator", "partitions have second holders") == (ps == 3));
  const nlohmann::json summary = cluster.Summary();
  const uint64_t batches = summary.at("ledger").at("batches");
  CHECK(batches == kHotEpochs * kBitsBatches);
  CHECK(summary.at("computed").get<uint64_t>() <= batches + kBitsLanes);
}

TEST_CASE("a synchronous job with copies has the bits of its job through kills of everybody") {
  const BitsCase of = HotJob(GENERATE(Perceptron(), GrowingTable()));
  Cluster cluster({.ps = 3, .workers = 2, .batch_ms = 10, .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(
      cluster,
      {{"ps:0", "ps:1", "ps:2", "coordinator", "worker:0"}, 12, kHotEpochs * kBitsBatches, 500});
  REQUIRE(cluster.Finish(120000) == 0);
  CHECK(BitsOf(cluster.dir()) == UndisturbedBits(of));
}

}  // namespace
}  // namespace paracord::e2e
