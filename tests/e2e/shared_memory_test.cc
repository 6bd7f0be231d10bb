// Workers and ps on one host exchange tensors through shared memory.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kSharedMemorySteps = 1500;

// A job whose partitions are too large to be copied through the socket.
nlohmann::json LargePartitions() {
  return {{"steps", kSharedMemorySteps},
          {"partitioner", {{"kind", "fixed_shards"}, {"shards", 2}}}};
}

// Returns how many memory files a process has mapped with `rights` ("r--s" or "rw-s").
int Mapped(pid_t pid, const std::string& rights) {
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:paracord") != std::string::npos &&
        line.find(" " + rights + " ") != std::string::npos) {
      ++count;
    }
  }
  return count;
}

TEST_CASE("workers read a ps's memory and it reads theirs, neither can write, none outlives them") {
  Cluster cluster({.batch_ms = 2, .job = LargePartitions()});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  const pid_t ps = cluster.at("ps:0").pid();
  const pid_t worker = cluster.at("worker:0").pid();
  CHECK(Mapped(ps, "rw-s") > 0);
  CHECK(Mapped(ps, "r--s") == 2);      // one for each worker
  CHECK(Mapped(worker, "r--s") == 2);  // one for each ps
  cluster.at("worker:1").Signal(SIGKILL);
  CHECK(WaitUntil(5000, [&] { return Mapped(ps, "r--s") == 1; }));
  cluster.Supervise();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSharedMemorySteps);
}

TEST_CASE(
    "a worker that is stopped with a reply loses the shared memory, and goes on over the network",
    "[.slow]") {
  Cluster cluster({.workers = 1, .job = LargePartitions()});
  for (const std::string task : {"coordinator", "ps:0", "ps:1"}) cluster.Start(task);
  cluster.Start("worker:0", {{"PARACORD_FAILPOINTS", "worker.exchanged=stop@41"}});
  REQUIRE(cluster.WaitForBatches(20));
  const auto told = [&](const std::string& ps) {
    return cluster.Logged(ps, "the peer kept a reply for 15000 ms");
  };
  CHECK(WaitUntil(25000, [&] { return told("ps:0") || told("ps:1"); }));
  cluster.at("worker:0").Signal(SIGCONT);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSharedMemorySteps);
}

TEST_CASE("a ps that was stopped finds no fault with its workers, and takes no memory from them",
          "[.slow]") {
  Cluster cluster({.batch_ms = 5, .job = LargePartitions()});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(20));
  cluster.at("ps:0").Signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(17));
  cluster.at("ps:0").Signal(SIGCONT);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSharedMemorySteps);
  CHECK_FALSE(cluster.Logged("ps:0", "kept a reply"));
}

TEST_CASE("batches stay exact while a worker and a ps that share memory are killed in turn") {
  Cluster cluster({.batch_ms = 2, .job = LargePartitions()});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  for (int i = 0; i < 8; ++i) {
    const int64_t until = NowMs() + 150 + 37 * i;
    WaitUntil(10000, [&] { return cluster.Supervise().empty() && NowMs() >= until; });
    const std::string task = absl::StrCat(i % 2 == 0 ? "worker:" : "ps:", i / 2 % 2);
    if (cluster.at(task).running()) cluster.at(task).Signal(SIGKILL);
  }
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kSharedMemorySteps);
}

}  // namespace
}  // namespace paracord::e2e
