// Kills a process at each failpoint in turn. No batch may be lost or applied twice.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kEpochs = 4;
constexpr Exit kKilled = -9;

nlohmann::json ShortJob() {
  return {{"epochs", kEpochs},
          {"evaluate", {{"every_epochs", 1}}},
          {"checkpoint", {{"every_seconds", 0.1}}}};
}

void CheckResult(const Cluster& cluster) {
  CheckCounted(cluster.dir(), kEpochs * kBatchesPerEpoch);
  const nlohmann::json metrics = cluster.Summary().at("metrics").at("test");
  CHECK(metrics.at("mean_absolute_error") == kTarget - float{kEpochs * kBatchesPerEpoch});
}

struct Place {
  const char* task;
  const char* failpoint;
};

TEST_CASE("a process that dies at a named place loses no batch and repeats none") {
  const Place place = GENERATE(values<Place>({
      {"ps:0", "ps.push.received=kill@40"},
      {"ps:0", "ps.push.validated=kill@40"},
      {"ps:0", "ps.push.applied=kill@40"},
      {"ps:0", "ps.push.replied=kill@40"},
      {"ps:1", "ps.load.begin=kill@1"},
      {"ps:1", "ps.load.loaded=kill@1"},
      {"ps:1", "ps.snapshot.begin=kill@2"},
      {"ps:1", "ps.snapshot.half=kill@2"},
      {"ps:1", "ps.snapshot.synced=kill@2"},
      {"worker:0", "worker.computed=kill@20"},
      {"worker:0", "worker.exchanged=kill@41"},
      {"worker:0", "worker.exchanged=kill@42"},
      {"worker:0", "worker.pushed=kill@20"},
      {"worker:0", "worker.evaluated=kill@2"},
      {"coordinator", "coordinator.generation.claimed=kill@1"},
      {"coordinator", "coordinator.job_state.written=kill@1"},
      {"coordinator", "coordinator.job_state.written=kill@3"},
      {"coordinator", "coordinator.round.made=kill@2"},
      {"coordinator", "coordinator.commit.begin=kill@2"},
      {"coordinator", "coordinator.commit.renamed=kill@2"},
      {"coordinator", "coordinator.commit.done=kill@2"},
      {"coordinator", "coordinator.evaluation.leased=kill@3"},
      {"coordinator", "coordinator.summary.written=kill@1"},
  }));
  CAPTURE(place.task, place.failpoint);
  Cluster cluster({.ps = 2, .workers = 2, .batch_ms = 2, .job = ShortJob()});
  for (const std::string task : {"ps:0", "ps:1", "coordinator", "worker:0", "worker:1"}) {
    Variables environment;
    if (task == place.task) environment["PARACORD_FAILPOINTS"] = place.failpoint;
    cluster.Start(task, environment);
  }
  CHECK(cluster.at(place.task).Wait(20000) == kKilled);
  CHECK(cluster.Logged(place.task, "will fail on purpose at"));
  CHECK(cluster.Finish() == 0);
  CheckResult(cluster);
}

TEST_CASE("a ps that dies again while it restores is restored") {
  const char* failpoint = GENERATE("ps.load.begin=kill@1", "ps.load.loaded=kill@1");
  CAPTURE(failpoint);
  Cluster cluster({.ps = 2, .workers = 2, .batch_ms = 4, .job = ShortJob()});
  cluster.StartAll();
  REQUIRE(WaitUntil(20000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
  cluster.at("ps:1").Kill();
  cluster.Start("ps:1", {{"PARACORD_FAILPOINTS", failpoint}});
  CHECK(cluster.at("ps:1").Wait(20000) == kKilled);
  CHECK(cluster.Finish() == 0);
  CheckResult(cluster);
}

// The push has passed the check of its generation before the next generation reads the ledgers and
// rejects the batch.
TEST_CASE("a push that is under way when its generation ends is entered nowhere any more") {
  Cluster cluster({.ps = 2, .workers = 2, .batch_ms = 2, .job = {{"epochs", kEpochs}}});
  cluster.Start("ps:0", {{"PARACORD_FAILPOINTS", "ps.push.validated=stall:3000@40"}});
  cluster.Start("ps:1", {{"PARACORD_FAILPOINTS", "ps.push.validated=stall:8000@40"}});
  cluster.Start("coordinator");
  cluster.Start("worker:0");
  REQUIRE(cluster.WaitForBatches(30));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  cluster.at("worker:0").Kill();
  cluster.at("coordinator").Kill();
  cluster.Start("coordinator");  // begins the next generation
  // By then ps:0 goes on with the push, ps:1 does not.
  std::this_thread::sleep_for(std::chrono::seconds(4));
  cluster.Start("worker:0");
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kEpochs * kBatchesPerEpoch);
}

TEST_CASE("the job ends when the final checkpoint could not be written at first") {
  Cluster cluster(
      {.ps = 1, .workers = 1, .job = {{"epochs", 2}, {"checkpoint", {{"every_seconds", 0}}}}});
  cluster.Start("ps:0", {{"PARACORD_FAILPOINTS", "files.sync=error@1"}});
  cluster.Start("coordinator");
  cluster.Start("worker:0");
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Logged("coordinator", "checkpoint round 1 failed"));
  CheckCounted(cluster.dir(), 2 * kBatchesPerEpoch);
}

}  // namespace
}  // namespace paracord::e2e
