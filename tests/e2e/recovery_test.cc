// Measures how long the cluster takes to notice and repair a death. Prints the times. The limits
// allow for a busy machine.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "e2e/cluster.h"
#include "e2e/counting_job.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kRecoverySteps = 3000;

int64_t Took(int64_t wait_ms, const std::string& what, const std::function<bool()>& done) {
  const int64_t from = NowMs();
  const bool was_done = WaitUntil(wait_ms, done);
  const int64_t ms = NowMs() - from;
  std::cout << "recovery: " << what << ": " << (was_done ? "" : "not within ") << ms << " ms\n";
  CHECK(was_done);
  return ms;
}

bool Ready(Cluster& cluster, const std::string& ps) {
  const nlohmann::json entry = cluster.StatusOf("ps", ps);
  return entry.is_object() && entry.at("state") == "ready";
}

TEST_CASE("deaths are noticed and repaired within seconds") {
  Cluster cluster({.batch_ms = 3, .job = {{"steps", kRecoverySteps}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(200));

  cluster.at("worker:0").Signal(SIGKILL);
  CHECK(Took(10000, "worker killed, noticed",
             [&] { return cluster.StatusOf("workers", "worker:0").is_null(); }) <= 1000);
  CHECK(WaitUntil(1000, [&] { return cluster.Logged("coordinator", "worker:0 left"); }));
  cluster.at("worker:0").Wait(1000);
  cluster.Start("worker:0");
  Took(10000, "worker back, has a session",
       [&] { return cluster.StatusOf("workers", "worker:0").is_object(); });

  REQUIRE(WaitUntil(5000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
  const nlohmann::json survivor = cluster.Describe("ps:1");
  cluster.at("ps:0").Signal(SIGKILL);
  CHECK(Took(10000, "ps killed, noticed", [&] { return !Ready(cluster, "ps:0"); }) <= 1000);
  cluster.at("ps:0").Wait(1000);
  cluster.Start("ps:0");
  CHECK(Took(10000, "ps back, serving", [&] { return Ready(cluster, "ps:0"); }) <= 3000);
  const uint64_t then = cluster.BatchesDone();
  Took(10000, "ps back, training goes on", [&] { return cluster.BatchesDone() > then; });
  CHECK(cluster.Describe("ps:1").at("boot_id") == survivor.at("boot_id"));
  CHECK(cluster.Describe("ps:1").at("loaded_generation") == survivor.at("loaded_generation"));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kRecoverySteps);
}

TEST_CASE("a coordinator that comes back finds every ps as it was") {
  Cluster cluster(
      {.batch_ms = 3, .job = {{"steps", kRecoverySteps}, {"checkpoint", {{"every_seconds", 60}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(300));
  cluster.at("coordinator").Kill();
  const nlohmann::json before[] = {cluster.Describe("ps:0"), cluster.Describe("ps:1")};
  cluster.Start("coordinator");
  CHECK(Took(10000, "coordinator back, all ps and workers attached", [&] {
          const nlohmann::json status = cluster.Status();
          return status.is_object() && status.at("phase") == "training" &&
                 status.at("workers").size() == 2;
        }) <= 2000);
  for (const int i : {0, 1}) {
    const nlohmann::json after = cluster.Describe("ps:" + std::to_string(i));
    CHECK(after.at("boot_id") == before[i].at("boot_id"));
    CHECK(after.at("loaded_generation") == before[i].at("loaded_generation"));
    for (const auto& [partition, applied] : before[i].at("applied").items()) {
      CHECK(after.at("applied").at(partition) >= applied);
    }
  }
  CHECK(NewestCheckpoint(cluster.dir()).empty());
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kRecoverySteps);
  CHECK(cluster.Summary().at("recoveries").at("ps") == 0);
  CHECK(cluster.Summary().at("recoveries").at("coordinator") == 1);
}

TEST_CASE("a coordinator that comes back with another learning rate tells every ps of it") {
  const nlohmann::json steps = {{"steps", kRecoverySteps}};
  Cluster cluster({.batch_ms = 3, .job = steps});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(300));
  cluster.at("coordinator").Kill();
  nlohmann::json slower = steps;
  slower["optimizer"] = {{"learning_rate", 0.5}};
  cluster.WriteJob(slower);
  cluster.Start("coordinator");
  for (const char* ps : {"ps:0", "ps:1"}) {
    CHECK(WaitUntil(10000, [&] { return cluster.Logged(ps, "takes over the settings"); }));
  }
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Summary().at("ledger").at("applied_min") == kRecoverySteps);
  CHECK(cluster.Summary().at("recoveries").at("ps") == 0);
}

TEST_CASE("a coordinator that comes back with another job has the workers that lived on take it") {
  const nlohmann::json steps = {{"steps", kRecoverySteps}};
  Cluster cluster({.batch_ms = 3, .job = steps});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(300));
  cluster.at("coordinator").Kill();
  nlohmann::json moved = steps;
  moved["wire"] = "bf16";
  moved["data"]["train"]["features"] = "moved/train-x.npy";
  cluster.WriteJob(moved);
  std::filesystem::create_directory(cluster.root() + "/moved");
  std::filesystem::rename(cluster.root() + "/train-x.npy", cluster.root() + "/moved/train-x.npy");
  cluster.Start("coordinator");
  for (const char* worker : {"worker:0", "worker:1"}) {
    CHECK(WaitUntil(10000, [&] { return cluster.Logged(worker, "the job has changed"); }));
  }
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Summary().at("ledger").at("applied_min") == kRecoverySteps);
  CHECK(cluster.Summary().at("recoveries").at("worker") == 0);
}

}  // namespace
}  // namespace paracord::e2e
