// Runs `paracord train` on clusters of nodes, without ps.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

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
  const auto command = train.Start({"--ps", "0", "--workers", "2", "--set",
                                    R"(failures={"policy": "fail", "per_batch": 3})"});
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

}  // namespace
}  // namespace paracord::e2e
