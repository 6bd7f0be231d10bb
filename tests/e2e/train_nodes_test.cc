// Runs `paracord train` on clusters of nodes, without ps.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/bits_job.h"
#include "e2e/counting_job.h"
#include "e2e/train.h"

namespace paracord::e2e {
namespace {

TEST_CASE("train without ps survives the death of each of its workers") {
  Train train;
  const auto command = train.Start({"--ps", "0", "--workers", "2"});
  REQUIRE(train.WaitForCheckpoint());
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<pid_t> daemons = train.Daemons();
    REQUIRE(daemons.size() == 2);
    const pid_t victim = daemons[i % 2];
    kill(victim, SIGKILL);
    REQUIRE(WaitUntil(30000, [&] {
      const std::vector<pid_t> now = train.Daemons();
      return now.size() == 2 && std::find(now.begin(), now.end(), victim) == now.end();
    }));
  }
  CHECK(command->Wait(120000) == 0);
  CHECK(train.Said("and was restarted"));
  CheckCounted(train.dir(), Train::kSteps);
  CHECK(train.Daemons().empty());
}

TEST_CASE("train without ps ends with the code of the job that has failed") {
  Train train;
  SpoilRecord(train.root(), 5);
  const auto command = train.Start(
      {"--ps", "0", "--workers", "2", "--set", R"(failures={"policy": "fail", "per_batch": 3})"});
  CHECK(command->Wait(60000) == 6);
  CHECK(train.Said("failures.policy"));
  CHECK_FALSE(train.Said("was restarted"));
  CHECK(train.Daemons().empty());
}

TEST_CASE("train without ps goes on after SIGTERM, and says how with all its flags") {
  Train train(Train::kSteps, 0);
  auto command = train.Start({"--ps", "0", "--workers", "2", "--memory-limit", "2GiB"});
  REQUIRE(train.WaitUntilTraining());
  command->Signal(SIGTERM);
  CHECK(command->Wait(30000) == 143);
  CHECK(train.Said(" --ps 0 --workers 2 --memory-limit 2GiB --dir '" + train.dir() + "'"));
  command = train.Start({"--ps", "0", "--workers", "1"});
  CHECK(command->Wait(120000) == 0);
  CheckCounted(train.dir(), Train::kSteps);
}

TEST_CASE("train without ps refuses memory in which no worker holds variables, and says how much") {
  Train train;
  const auto command = train.Start({"--ps", "0", "--memory-limit", "200MiB"});
  CHECK(command->Wait(20000) == 2);
  CHECK(train.Said("--memory-limit: must be at least 256.0 MiB"));
}

// Trains a job that names neither strategy nor consistency, on each cluster in turn until it has a
// checkpoint, and on the last one to its end. Returns the bits of its last checkpoint.
std::string BitsAcross(const std::vector<std::vector<std::string>>& clusters) {
  BitsCase of = Perceptron();
  of.job["consistency"] = nullptr;  // taken out of the counting job
  of.job["epochs"] = 200;
  Train train;
  WriteCountingJob(train.root(), of.job);
  WriteBitsData(train.root(), of);
  for (size_t i = 0; i < clusters.size(); ++i) {
    CAPTURE(i);
    const bool last = i + 1 == clusters.size();
    const std::string before = i == 0 ? "" : NewestCheckpoint(train.dir());
    const auto command = train.Start(clusters[i], last ? "" : "worker.computed=stall:10");
    if (!last) {
      REQUIRE(WaitUntil(60000, [&] { return NewestCheckpoint(train.dir()) != before; }));
      command->Signal(SIGTERM);
    }
    const auto code = command->Wait(120000);
    INFO(train.log());
    REQUIRE(code == (last ? 0 : 143));
  }
  return BitsOf(train.dir());
}

const std::vector<std::string> kTwoNodes = {"--ps", "0", "--workers", "2"};
const std::vector<std::string> kTwoPs = {"--ps", "2", "--workers", "2"};
const std::vector<std::string> kAlone = {"--ps", "0", "--workers", "1"};

TEST_CASE("a synchronous job of auto keeps its bits on nodes, then with ps, then alone") {
  CHECK(BitsAcross({kTwoNodes, kTwoPs, kAlone}) == BitsAcross({kTwoNodes}));
}

TEST_CASE("an asynchronous job of auto goes on without ps, and is still asynchronous") {
  Train train;
  WriteCountingJob(train.root(), {{"steps", Train::kSteps},
                                  {"consistency", nullptr},
                                  {"checkpoint", {{"every_seconds", 0.5}}}});
  auto command = train.Start(kTwoPs);
  REQUIRE(train.WaitForCheckpoint());
  command->Signal(SIGTERM);
  CHECK(command->Wait(30000) == 143);
  command = train.Start(kTwoNodes);
  const auto code = command->Wait(120000);
  INFO(train.log());
  CHECK(code == 0);
  CheckCounted(train.dir(), Train::kSteps);
}

TEST_CASE("train refuses a consistency that is not the job's before it starts a process") {
  Train train;
  auto command = train.Start(kTwoPs);
  REQUIRE(train.WaitForCheckpoint());
  command->Signal(SIGTERM);
  CHECK(command->Wait(30000) == 143);
  REQUIRE(std::filesystem::remove_all(train.dir() + "/logs") > 0);
  std::vector<std::string> other = kTwoNodes;
  other.insert(other.end(), {"--set", "consistency=sync", "--set", "split_batches=null"});
  command = train.Start(other);
  CHECK(command->Wait(20000) == 2);
  INFO(train.log());
  CHECK(train.Said("consistency: was \"async\" and is now \"sync\", but cannot change on resume"));
  CHECK_FALSE(std::filesystem::exists(train.dir() + "/logs"));
}

}  // namespace
}  // namespace paracord::e2e
