// Trains the counting job with real processes, undisturbed and under random kills.
#include <catch2/catch.hpp>
#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"

namespace paracord::e2e {
namespace {

TEST_CASE("every batch is applied exactly once over unix sockets and over TCP") {
  const bool tcp = GENERATE(false, true);
  CAPTURE(tcp);
  Cluster cluster({.tcp = tcp, .job = {{"epochs", 3}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.WaitAllGone(5000));
  for (const char* task : {"ps:0", "ps:1", "worker:0", "worker:1"}) {
    CAPTURE(task);
    CHECK(cluster.at(task).Poll() == 0);
  }
  CheckCounted(cluster.dir(), 3 * kBatchesPerEpoch);
}

TEST_CASE("an undisturbed worker computes each batch once, however often its leases end") {
  constexpr uint64_t kSteps = 1000;
  Cluster cluster({.workers = 1,
                   .job = {{"steps", kSteps},
                           {"split_batches", 1},
                           {"timeouts", {{"worker_ms", 60000}, {"ps_ms", 60000}}}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSteps);
  CHECK(cluster.Summary().at("computed") == kSteps);
}

TEST_CASE("every batch is applied exactly once through 50 kills of random roles") {
  constexpr uint64_t kSteps = 10000;
  Cluster cluster({.ps = 2, .workers = 2, .batch_ms = 5, .job = {{"steps", kSteps}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster,
               {{"ps:0", "ps:1", "coordinator", "worker:0", "worker:1"}, 50, kSteps, 1300});
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
  const nlohmann::json recoveries = cluster.Summary().at("recoveries");
  std::cout << "recoveries " << TextOf(recoveries) << ", duplicates "
            << cluster.Summary().at("duplicates") << "\n";
  CHECK(recoveries.at("ps") > 5);
  CHECK(recoveries.at("coordinator") > 2);
}

}  // namespace
}  // namespace paracord::e2e
