// Workers come and go, and processes are told to leave.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kLeavingSteps = 1000;
constexpr Exit kDrained = 143;

std::string Name(int signal) { return absl::StrCat("SIG", sigabbrev_np(signal)); }

bool HasWorkers(Cluster& cluster, size_t count) {
  const nlohmann::json status = cluster.Status();
  return status.is_object() && status.at("workers").size() == count;
}

TEST_CASE("the first worker begins the job where all workers are on one host") {
  Cluster cluster({.ps = 1,
                   .workers = 2,
                   .unix_workers = true,
                   .batch_ms = 4,
                   .job = {{"steps", kLeavingSteps}}});
  for (const char* task : {"coordinator", "ps:0", "worker:0"}) cluster.Start(task);
  REQUIRE(cluster.WaitForBatches(1));
  CHECK_FALSE(cluster.Logged("worker:0", "waits for another worker"));
}

TEST_CASE("workers may join and leave while the job trains, under any index") {
  Cluster cluster({.ps = 2, .workers = 1, .batch_ms = 4, .job = {{"steps", kLeavingSteps}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(50));
  cluster.Start("worker:7");
  cluster.Start("worker:3");
  REQUIRE(WaitUntil(10000, [&] { return HasWorkers(cluster, 3); }));
  // A worker is killed and returns under another index, a worker leaves on SIGTERM, the rest are
  // killed, and finally workers come again.
  cluster.at("worker:0").Kill();
  cluster.Start("worker:1");
  cluster.at("worker:7").Signal(SIGTERM);
  CHECK(cluster.at("worker:7").Wait(5000) == kDrained);
  for (const char* task : {"worker:1", "worker:3"}) cluster.at(task).Kill();
  REQUIRE(WaitUntil(10000, [&] { return HasWorkers(cluster, 0); }));
  const uint64_t parked = cluster.BatchesDone();
  CHECK(parked < kLeavingSteps);
  CHECK(cluster.Status().at("waiting").get<std::string>().find("a worker") != std::string::npos);
  for (const char* task : {"worker:0", "worker:1", "worker:3", "worker:7"}) cluster.Start(task);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

TEST_CASE("SIGTERM or SIGINT lets a worker finish its batch and leave with 143") {
  const int threads = GENERATE(1, 3);
  const int signal = threads == 1 ? SIGINT : SIGTERM;
  Cluster cluster({.batch_ms = 4, .threads = threads, .job = {{"steps", kLeavingSteps}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  cluster.at("worker:0").Signal(signal);
  CHECK(cluster.at("worker:0").Wait(3000) == kDrained);
  CHECK(cluster.Logged("worker:0", Name(signal) + ": finishing the batch"));
  CHECK(cluster.Logged("coordinator", "worker:0 left: it leaves"));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
  CHECK(cluster.Summary().at("recoveries").at("worker") == 0);
}

// Returns whether `process` has the file open.
bool HasOpen(const Process& process, const std::string& path) {
  std::error_code gone;
  std::filesystem::directory_iterator it(absl::StrCat("/proc/", process.pid(), "/fd"), gone);
  for (; !gone && it != std::filesystem::directory_iterator(); it.increment(gone)) {
    if (std::filesystem::read_symlink(it->path(), gone) == path) return true;
    gone.clear();
  }
  return false;
}

TEST_CASE("SIGTERM or SIGINT lets a worker leave that has begun to open its data") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  Cluster cluster({.job = {{"steps", kLeavingSteps}}});
  for (const char* task : {"coordinator", "ps:0", "ps:1"}) cluster.Start(task);
  cluster.Start("worker:0", {{"PARACORD_FAILPOINTS", "files.read=stall:60000"}});
  REQUIRE(WaitUntil(
      10000, [&] { return HasOpen(cluster.at("worker:0"), cluster.root() + "/train-x.npy"); }));
  cluster.at("worker:0").Signal(signal);
  CHECK(cluster.at("worker:0").Wait(5000) == kDrained);
  cluster.Start("worker:1");
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

TEST_CASE("SIGTERM, SIGINT or SIGHUP has a coordinator take a checkpoint and leave with 143") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  Cluster cluster(
      {.batch_ms = 4, .job = {{"steps", kLeavingSteps}, {"checkpoint", {{"every_seconds", 0}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  cluster.at("coordinator").Signal(signal);
  CHECK(cluster.at("coordinator").Wait(5000) == kDrained);
  CHECK_FALSE(NewestCheckpoint(cluster.dir()).empty());
  CHECK(cluster.Summary().at("status") == "stopped");
  CHECK(cluster.Summary().at("reason") == Name(signal) + ", after a checkpoint");
  // Kills all other processes. Only the checkpoint remains.
  cluster.KillAll();
  cluster.StartAll();
  CHECK(
      WaitUntil(10000, [&] { return cluster.Logged("coordinator", "going on from checkpoint"); }));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

TEST_CASE("workers wait for the next coordinator when one is told to leave") {
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kLeavingSteps}}});
  cluster.StartAll();
  for (uint64_t batches = 100; batches <= 500; batches += 100) {
    REQUIRE(cluster.WaitForBatches(batches));
    cluster.at("coordinator").Signal(SIGTERM);
    CHECK(cluster.at("coordinator").Wait(5000) == kDrained);
    cluster.Start("coordinator");
  }
  for (const char* task : {"worker:0", "worker:1"}) CHECK(cluster.at(task).running());
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

TEST_CASE("a worker that was stopped while another took its place leaves when it goes on") {
  Cluster cluster(
      {.batch_ms = 4, .job = {{"steps", kLeavingSteps}, {"timeouts", {{"worker_ms", 500}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  const std::unique_ptr<Process> old = cluster.TakeOut("worker:0");
  old->Signal(SIGSTOP);
  // The coordinator gives it up for its silence.
  REQUIRE(WaitUntil(5000, [&] { return HasWorkers(cluster, 1); }));
  cluster.Start("worker:0");
  REQUIRE(cluster.WaitForBatches(300));
  old->Signal(SIGCONT);
  CHECK(old->Wait(5000) == 3);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
  CHECK(cluster.Summary().at("ledger").at("rejected") == 0);
}

TEST_CASE("SIGTERM on a ps has a checkpoint taken for it, and nothing is computed again") {
  Cluster cluster(
      {.batch_ms = 4, .job = {{"steps", kLeavingSteps}, {"checkpoint", {{"every_seconds", 0}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  cluster.at("ps:0").Signal(SIGTERM);
  CHECK(cluster.at("ps:0").Wait(5000) == kDrained);
  CHECK_FALSE(NewestCheckpoint(cluster.dir()).empty());
  cluster.Start("ps:0");
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

TEST_CASE("two coordinators of one job that are both restarted come to rest") {
  Cluster cluster(
      {.batch_ms = 4, .job = {{"steps", kLeavingSteps}, {"timeouts", {{"drain_ms", 1000}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  constexpr Exit kFenced = 201;
  constexpr Exit kInUse = 3;
  // A coordinator exits if another coordinator answers.
  cluster.Start("coordinator:1");  // at an address unknown to the workers
  CHECK(cluster.at("coordinator:1").Wait(10000) == kInUse);
  CHECK(cluster.Logged("coordinator:1", "another coordinator leads this job"));
  CHECK(cluster.WaitForBatches(cluster.BatchesDone() + 10));
  // A coordinator takes over if the other does not answer, and fences the other.
  cluster.at("coordinator").Signal(SIGSTOP);
  cluster.Start("coordinator:1");
  REQUIRE(WaitUntil(10000, [&] {
    return ReadText(cluster.dir() + "/coordinator.address").find("/second") != std::string::npos;
  }));
  cluster.at("coordinator").Signal(SIGCONT);
  CHECK(cluster.at("coordinator").Wait(10000) == kFenced);
  cluster.Start("coordinator");
  CHECK(cluster.at("coordinator").Wait(10000) == kInUse);
  CHECK(cluster.at("coordinator:1").running());
  cluster.at("coordinator:1").Kill();
  cluster.Start("coordinator");
  CHECK(cluster.at("coordinator").Wait(60000) == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

TEST_CASE("when everything is killed the job goes on from its newest checkpoint") {
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kLeavingSteps}}});
  for (const uint64_t batches : {200u, 400u, 600u}) {
    cluster.StartAll();
    REQUIRE(cluster.WaitForBatches(batches));
    REQUIRE(WaitUntil(5000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
    cluster.KillAll();
  }
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kLeavingSteps);
}

// The timeout exceeds the interval at which a daemon probes its own listener. A probe must not
// count as a coordinator.
TEST_CASE("a ps whose coordinator never comes back leaves with 202") {
  Cluster cluster(
      {.batch_ms = 4, .job = {{"steps", kLeavingSteps}, {"timeouts", {{"orphan_ms", 12000}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(50));
  for (const char* task : {"coordinator", "worker:0"}) cluster.at(task).Kill();
  CHECK(cluster.at("ps:0").Wait(25000) == 202);
  CHECK(cluster.Logged("ps:0", "no coordinator"));
}

}  // namespace
}  // namespace paracord::e2e
