// Nodes (workers that hold the variables, without ps) as real processes, undisturbed and under
// kills.
#include <signal.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "e2e/bits_job.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/process.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr Exit kLeftBySignal = 143;

std::vector<std::string> NodeTasks(uint32_t count) {
  std::vector<std::string> tasks;
  for (uint32_t i = 0; i < count; ++i) tasks.push_back(absl::StrCat("worker:", i));
  return tasks;
}

// Returns a patch that makes the counting job synchronous.
json CountingSync(const json& patch) {
  json job = {{"consistency", "sync"}, {"round_batches", 2}, {"split_batches", nullptr}};
  job.merge_patch(patch);
  return job;
}

void CheckAllLeft(Cluster& cluster, uint32_t nodes, int code) {
  CHECK(cluster.WaitAllGone(20000));
  for (const std::string& task : NodeTasks(nodes)) {
    CAPTURE(task);
    CHECK(cluster.at(task).Poll() == code);
  }
}

TEST_CASE("nodes apply every batch exactly once over unix sockets and over TCP") {
  const bool tcp = GENERATE(false, true);
  const uint32_t nodes = GENERATE(1, 2, 3);
  CAPTURE(tcp, nodes);
  Cluster cluster({.workers = nodes,
                   .nodes = true,
                   .tcp = tcp,
                   .job = {{"consistency", "async"}, {"epochs", 3}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckAllLeft(cluster, nodes, 0);
  CheckCounted(cluster.dir(), 3 * kBatchesPerEpoch);
}

TEST_CASE("nodes train in synchronous rounds") {
  const uint32_t nodes = GENERATE(1, 3);
  CAPTURE(nodes);
  Cluster cluster({.workers = nodes, .nodes = true, .job = CountingSync({{"epochs", 3}})});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckAllLeft(cluster, nodes, 0);
  CheckCounted(cluster.dir(), 3 * kBatchesPerEpoch, 0, 3 * kBatchesPerEpoch / 2);
}

TEST_CASE("nodes train a job in rounds that leaves its strategy to the cluster") {
  const bool chief = GENERATE(false, true);
  CAPTURE(chief);
  json job = CountingSync({{"epochs", 3}});
  job["consistency"] = nullptr;  // removes the counting job's "async"
  Cluster cluster({.workers = 2, .nodes = true, .chief = chief, .job = job});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Logged(chief ? "coordinator" : "worker:0", "strategy: multi_worker_mirrored"));
  CheckCounted(cluster.dir(), 3 * kBatchesPerEpoch, 0, 3 * kBatchesPerEpoch / 2);
}

TEST_CASE("nodes with a chief leave the coordinator to it") {
  Cluster cluster({.workers = 2,
                   .nodes = true,
                   .chief = true,
                   .job = {{"consistency", "async"}, {"epochs", 3}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckAllLeft(cluster, 2, 0);
  CHECK_FALSE(cluster.Logged("worker:0", "info coordinator"));
  CheckCounted(cluster.dir(), 3 * kBatchesPerEpoch);
}

TEST_CASE("nodes apply every batch exactly once through 40 kills of any of them") {
  constexpr uint64_t kSteps = 8000;
  Cluster cluster({.workers = 3,
                   .nodes = true,
                   .batch_ms = 5,
                   .job = {{"consistency", "async"}, {"steps", kSteps}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster, {NodeTasks(3), 40, kSteps, 1300});
  CHECK(cluster.Finish(180000) == 0);
  CheckCounted(cluster.dir(), kSteps);
  const json recoveries = cluster.Summary().at("recoveries");
  CHECK(recoveries.at("ps") > 3);
  CHECK(recoveries.at("coordinator") > 3);
}

TEST_CASE("a node that is told to leave takes a checkpoint along, and its next life goes on") {
  const bool sync = GENERATE(false, true);
  CAPTURE(sync);
  constexpr uint64_t kSteps = 1000;
  const json job = {{"steps", kSteps}, {"checkpoint", {{"every_seconds", 0}}}};
  Cluster cluster(
      {.workers = 2, .nodes = true, .batch_ms = 4, .job = sync ? CountingSync(job) : job});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  cluster.at("worker:1").Signal(SIGTERM);
  CHECK(cluster.at("worker:1").Wait(20000) == kLeftBySignal);
  CHECK(cluster.Logged("worker:1", "SIGTERM: finishing the batch"));
  const std::string kept = NewestCheckpoint(cluster.dir());
  CHECK_FALSE(kept.empty());
  CHECK(cluster.at("worker:0").running());
  cluster.Start("worker:1");
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSteps, 0, sync ? std::optional<uint64_t>(kSteps / 2) : std::nullopt);
}

TEST_CASE("nodes that are told to leave, one or all, keep what was trained in a checkpoint") {
  const bool sync = GENERATE(false, true);
  const bool all = GENERATE(false, true);
  CAPTURE(sync, all);
  constexpr uint64_t kSteps = 1000;
  const json job = {{"steps", kSteps}, {"checkpoint", {{"every_seconds", 0}}}};
  Cluster cluster(
      {.workers = 3, .nodes = true, .batch_ms = 4, .job = sync ? CountingSync(job) : job});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  for (const std::string& task : NodeTasks(all ? 3 : 1)) cluster.at(task).Signal(SIGTERM);
  for (const std::string& task : NodeTasks(all ? 3 : 1)) {
    CHECK(cluster.at(task).Wait(30000) == kLeftBySignal);
  }
  CHECK_FALSE(NewestCheckpoint(cluster.dir()).empty());
  CHECK(cluster.Summary().at("status") == "stopped");
  cluster.KillAll();
  cluster.StartAll();
  CHECK(WaitUntil(20000, [&] { return cluster.Logged("worker:0", "going on from checkpoint"); }));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSteps, 0, sync ? std::optional<uint64_t>(kSteps / 2) : std::nullopt);
}

TEST_CASE("workers that the cluster does not name compute for nodes and hold nothing") {
  Cluster cluster({.workers = 2, .nodes = true, .batch_ms = 4, .job = {{"steps", 600}}});
  cluster.StartAll();
  cluster.Start("worker:7");
  REQUIRE(WaitUntil(20000, [&] { return cluster.Logged("worker:7", "joined: session"); }));
  const json status = cluster.Status();
  REQUIRE(status.is_object());
  REQUIRE(status.at("ps").size() == 2);
  CHECK(status.at("ps").at(1).at("task") == "ps:1");
  CHECK(status.at("ps").at(1).at("node") == "worker:1");
  cluster.at("worker:7").Kill();
  cluster.Start("worker:7");
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.WaitAllGone(20000));
  CHECK(cluster.at("worker:7").Poll() == 0);
  CheckCounted(cluster.dir(), 600);
}

std::string BitsOfNodes(const BitsCase& of, uint32_t nodes, int kills) {
  json job = of.job;
  job["epochs"] = kills > 0 ? 60 : 4;
  Cluster cluster(
      {.workers = nodes, .nodes = true, .batch_ms = kills > 0 ? 5 : 0, .job = std::move(job)});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  if (kills > 0) {
    REQUIRE(cluster.WaitForBatches(1));
    KillAtRandom(cluster, {NodeTasks(nodes), kills, 60 * kBitsBatches, 1500});
  }
  REQUIRE(cluster.Finish(180000) == 0);
  return BitsOf(cluster.dir());
}

std::string BitsOfPs(const BitsCase& of, uint64_t epochs) {
  json job = of.job;
  job["epochs"] = epochs;
  Cluster cluster({.ps = 2, .workers = 2, .job = std::move(job)});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  REQUIRE(cluster.Finish(120000) == 0);
  return BitsOf(cluster.dir());
}

TEST_CASE("nodes that train synchronously have the bits of a cluster with ps") {
  const BitsCase of = GENERATE(Perceptron(), GrowingTable());
  const std::string with_ps = BitsOfPs(of, 4);
  for (const uint32_t nodes : {1u, 2u, 3u}) {
    CAPTURE(nodes);
    CHECK(BitsOfNodes(of, nodes, 0) == with_ps);
  }
}

TEST_CASE("nodes that train synchronously have the bits of a cluster with ps whatever is killed") {
  CHECK(BitsOfNodes(Perceptron(), 2, 10) == BitsOfPs(Perceptron(), 60));
}

}  // namespace
}  // namespace paracord::e2e
