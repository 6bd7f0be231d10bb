// Daemons under a supervisor that restarts every exited process, and under an operator that gives
// all replicas one command.
#include <signal.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "net/port_multiplexer.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kSupervisedSteps = 100;

Exit Health(const std::string& address, const std::string& log) {
  Process health({PARACORD_BIN_DIR "/paracord", "health", "--ready", address}, {}, log);
  return health.Wait(10000).value_or(-1);
}

TEST_CASE("daemons that stay outlive the job, are healthy, and leave with 0 when they are told") {
  Cluster cluster({.ps = 1, .workers = 1, .job = {{"steps", kSupervisedSteps}}});
  const std::string worker = absl::StrCat("unix:", cluster.root(), "/worker");
  const std::string log = cluster.root() + "/health.log";
  cluster.Start("ps:0", {}, {"--listen", cluster.address("ps:0"), "--stay"});
  cluster.Start("worker:0", {}, {"--listen", worker, "--stay"});
  REQUIRE(WaitUntil(10000, [&] { return cluster.Logged("ps:0", "listens at"); }));
  CHECK(Health(cluster.address("ps:0"), log) == 1);  // the ps is empty
  cluster.Start("coordinator");
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSupervisedSteps);
  for (const std::string task : {"ps:0", "worker:0"}) {
    REQUIRE(WaitUntil(10000, [&] { return cluster.Logged(task, "holds nothing any more"); }));
    CHECK(Health(task == "ps:0" ? cluster.address("ps:0") : worker, log) == 0);
  }
  // A restarted ps finds the job done, and stays too.
  cluster.at("ps:0").Kill();
  cluster.Start("ps:0", {}, {"--listen", cluster.address("ps:0"), "--stay"});
  CHECK(WaitUntil(10000, [&] { return Health(cluster.address("ps:0"), log) == 0; }));
  // The job gets more steps. Both ps take part again.
  cluster.WriteJob({{"steps", 2 * kSupervisedSteps}});
  cluster.Start("coordinator");
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 2 * kSupervisedSteps);
  for (const std::string task : {"ps:0", "worker:0"}) {
    cluster.at(task).Signal(SIGTERM);
    CHECK(cluster.at(task).Wait(5000) == 0);
  }
}

TEST_CASE("a worker that nobody has numbered draws an index, and trains") {
  Cluster cluster({.ps = 1, .workers = 0, .job = {{"steps", kSupervisedSteps}}});
  cluster.StartAll();
  const nlohmann::json chief = {{"chief", {cluster.address("coordinator")}}};
  Process worker({PARACORD_BIN_DIR "/paracord-worker", "--task", "worker", "--dir", cluster.dir()},
                 {{"TF_CONFIG", TextOf(nlohmann::json({{"cluster", chief}}))}},
                 cluster.root() + "/any.log");
  CHECK(cluster.Finish() == 0);
  CHECK(worker.Wait(5000) == 0);
  CheckCounted(cluster.dir(), kSupervisedSteps);
}

// Returns an address whose port is free at present.
std::string FreeAddress() { return (*PortMultiplexer::Listen("127.0.0.1:0"))->address(); }

TEST_CASE("`paracord run` trains in a cluster without a chief, with the same command everywhere") {
  const TestDirectory directory;
  const std::string job = WriteCountingJob(directory.path(), {{"steps", kSupervisedSteps}});
  const std::string ps = FreeAddress();
  const std::vector<std::string> workers = {FreeAddress(), FreeAddress()};
  std::vector<std::unique_ptr<Process>> processes;
  const auto start = [&](const std::string& type, int index) {
    const nlohmann::json config = {{"cluster", {{"ps", {ps}}, {"worker", workers}}},
                                   {"task", {{"type", type}, {"index", index}}},
                                   {"environment", "cloud"}};
    processes.push_back(std::make_unique<Process>(
        std::vector<std::string>{PARACORD_BIN_DIR "/paracord", "run", "--job", job, "--dir",
                                 directory / "dir", "--device", "cpu"},
        Variables{{"TF_CONFIG", TextOf(config)}},
        absl::StrCat(directory.path(), "/", type, index, ".log")));
  };
  start("ps", 0);
  start("worker", 1);
  start("worker", 0);
  for (const auto& process : processes) CHECK(process->Wait(60000) == 0);
  CheckCounted(directory / "dir", kSupervisedSteps);
}

}  // namespace
}  // namespace paracord::e2e
