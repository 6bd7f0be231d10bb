// Jobs with rounds, as real processes under kills. Each batch counts once.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/process.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kLanes = 3;
constexpr uint64_t kRoundsEpochs = 20;
constexpr uint64_t kRoundsPerEpoch = (kBatchesPerEpoch + kLanes - 1) / kLanes;

// A job of 38 batches an epoch. The last batch has a quarter of the usual examples.
nlohmann::json RoundsJob(const nlohmann::json& consistency) {
  return {{"consistency", consistency},
          {"round_batches", kLanes},
          {"split_batches", nullptr},
          {"epochs", kRoundsEpochs},
          {"failures", {{"deaths_per_batch", 50}}}};
}

void RunWithKills(Cluster& cluster, int count) {
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster, {{"ps:1", "worker:0", "coordinator", "ps:0", "worker:1"},
                         count,
                         kRoundsEpochs * kBatchesPerEpoch,
                         900});
  CHECK(cluster.Finish(120000) == 0);
}

TEST_CASE("a bound of staleness applies every batch once whatever is killed") {
  Cluster cluster({.batch_ms = 5, .job = RoundsJob({{"staleness", 1}})});
  RunWithKills(cluster, 5);
  CheckCounted(cluster.dir(), kRoundsEpochs * kBatchesPerEpoch);
}

TEST_CASE("each round of a synchronous job is an update whatever is killed") {
  Cluster cluster({.batch_ms = 5, .job = RoundsJob("sync")});
  RunWithKills(cluster, 5);
  CheckCounted(cluster.dir(), kRoundsEpochs * kBatchesPerEpoch, 0, kRoundsEpochs * kRoundsPerEpoch);
}

TEST_CASE("a synchronous job is evaluated after each epoch on the values of its rounds") {
  nlohmann::json job = RoundsJob("sync");
  job["epochs"] = 3;
  job["evaluate"] = {{"every_epochs", 1}};
  Cluster cluster({.job = job});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 3 * kBatchesPerEpoch, 0, 3 * kRoundsPerEpoch);
  CHECK(cluster.Summary().at("metrics").at("test").at("mean_absolute_error") ==
        kTarget - float{3 * kRoundsPerEpoch});
}

TEST_CASE("a rejected batch of a synchronous job is left out of the mean of its round") {
  nlohmann::json job = RoundsJob("sync");
  job["epochs"] = 3;
  job["failures"] = {{"per_batch", 2}, {"rejected_max", 1.0}};
  Cluster cluster({.job = job});
  SpoilRecord(cluster.root(), 200);
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 3 * (kBatchesPerEpoch - 1), 3, 3 * kRoundsPerEpoch);
}

uint64_t LeasesOf(Cluster& cluster, const std::string& task) {
  const nlohmann::json worker = cluster.StatusOf("workers", task);
  return worker.is_object() ? worker.value("leases", uint64_t{0}) : 0;
}

TEST_CASE("of two workers the slow one gets one of four lanes") {
  nlohmann::json job = RoundsJob("sync");
  job["round_batches"] = 4;
  job["epochs"] = 1000;
  Cluster cluster({.ps = 1, .batch_ms = 25, .job = job});
  cluster.Start("ps:0");
  cluster.Start("coordinator");
  cluster.Start("worker:0");
  cluster.Start("worker:1", {{"PARACORD_FAILPOINTS", "worker.computed=stall:80"}});
  CHECK(WaitUntil(30000, [&] {
    return LeasesOf(cluster, "worker:0") == 3 && LeasesOf(cluster, "worker:1") == 1;
  }));
}

TEST_CASE("with backup workers rounds go on while a worker is stopped, and each counts once") {
  constexpr uint64_t kFour = 4, kRounds = (kBatchesPerEpoch + kFour - 1) / kFour;
  nlohmann::json job = RoundsJob("sync");
  job.update({{"round_batches", kFour},
              {"epochs", 30},
              {"backup", {{"factor", 2}}},
              {"timeouts", {{"worker_ms", 90000}}}});
  Cluster cluster({.batch_ms = 5, .job = job});
  const auto round = [&] {
    const nlohmann::json status = cluster.Status();
    return status.is_object() && status.contains("rounds")
               ? status["rounds"].value("round", uint64_t{0})
               : 0;
  };
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(kBatchesPerEpoch));
  REQUIRE(WaitUntil(5000, [&] { return LeasesOf(cluster, "worker:1") > 0; }));
  cluster.at("worker:1").Signal(SIGSTOP);
  const uint64_t before = round();
  // The coordinator still counts the worker as alive.
  CHECK(WaitUntil(30000, [&] { return round() >= before + 6; }));
  cluster.at("worker:1").Signal(SIGCONT);
  CHECK(cluster.Finish(60000) == 0);
  CHECK(cluster.Summary().at("rounds").at("backups").get<uint64_t>() > 3);
  CheckCounted(cluster.dir(), 30 * kBatchesPerEpoch, 0, 30 * kRounds);
}

TEST_CASE("a worker with fewer threads than the job wants says so and computes with its own") {
  const uint32_t threads = GENERATE(1u, 2u);
  Cluster cluster(
      {.ps = 1, .workers = 1, .threads = 1, .job = {{"threads", threads}, {"steps", 5}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  const std::string log = cluster.Log("worker:0");
  INFO(log);
  const std::string warning = "the job wants each batch computed by 2 threads (key threads)";
  const size_t first = log.find(warning);
  CHECK((first != std::string::npos) == (threads == 2));
  CHECK(log.rfind(warning) == first);
}

}  // namespace
}  // namespace paracord::e2e
