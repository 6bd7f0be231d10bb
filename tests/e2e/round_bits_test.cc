// Synchronous training of real processes gives equal values, slots and ledgers for any number of
// workers and ps, and under kills.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "e2e/bits_job.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

struct BitsRun {
  uint32_t ps = 1, workers = 1;
  int kills = 0;
  int epochs = 4;
  std::string device = "cpu";  // device of each worker
};

std::string BitsOfRun(const BitsCase& of, const BitsRun& run) {
  const auto& [ps, workers, kills, epochs, device] = run;
  json job = of.job;
  job["epochs"] = epochs;
  Cluster cluster(
      {.ps = ps, .workers = workers, .batch_ms = kills > 0 ? 5 : 0, .device = device, .job = job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  if (kills > 0) {
    REQUIRE(cluster.WaitForBatches(1));
    Kills how{{"coordinator"}, kills, epochs * kBitsBatches, 500};
    for (uint32_t i = 0; i < ps; ++i) how.tasks.push_back(absl::StrCat("ps:", i));
    for (uint32_t i = 0; i < workers; ++i) how.tasks.push_back(absl::StrCat("worker:", i));
    KillAtRandom(cluster, how);
  }
  REQUIRE(cluster.Finish(120000) == 0);
  return BitsOf(cluster.dir());
}

void CheckSameBits(const BitsCase& of) {
  const std::string alone = BitsOfRun(of, {1, 1});
  for (const auto& [ps, workers] : {std::pair(1u, 2u), std::pair(2u, 1u), std::pair(2u, 2u)}) {
    CAPTURE(ps, workers);
    CHECK(BitsOfRun(of, {ps, workers}) == alone);
  }
}

void CheckSameBitsWhateverIsKilled(const BitsCase& of) {
  // Compares two longer runs.
  const std::string killed = BitsOfRun(of, {2, 2, 10, 60});
  CHECK(killed == BitsOfRun(of, {1, 2, 1, 60}));
}

TEST_CASE(
    "a perceptron with moving averages and dropout trained synchronously has the bits of its job") {
  CheckSameBits(Perceptron());
}

TEST_CASE("a convolution trained synchronously has the bits of its job") {
  CheckSameBits(Convolution());
}

TEST_CASE("a growing table trained synchronously has the bits of its job") {
  CheckSameBits(GrowingTable());
}

TEST_CASE("synchronous training has the same bits where lanes are computed by a second worker") {
  BitsCase of = Perceptron();
  const std::string without = BitsOfRun(of, {1, 1});
  of.job["backup"] = {{"factor", 1.1}};
  of.job["epochs"] = 4;
  Cluster cluster({.ps = 2, .workers = 2, .job = of.job});
  WriteBitsData(cluster.root(), of);
  for (const char* task : {"ps:0", "ps:1", "coordinator", "worker:0"}) cluster.Start(task);
  cluster.Start("worker:1", {{"PARACORD_FAILPOINTS", "worker.computed=stall:150"}});
  REQUIRE(cluster.Finish(120000) == 0);
  CHECK(BitsOf(cluster.dir()) == without);
}

// Rounds have 4 lanes, so one worker pushes all lanes of a round as one run.
void CheckSameBitsOnDevices(BitsCase of) {
  const std::string alone = BitsOfRun(of, {1, 4});
  for (const char* ops : {"hierarchical_copy", "reduction_to_one_device"}) {
    of.job["cross_device_ops"] = ops;
    for (const char* device : {"cpu:1", "cpu:2", "cpu:4"}) {
      CAPTURE(ops, device);
      CHECK(BitsOfRun(of, {2, 1, 0, 4, device}) == alone);
    }
  }
  CHECK(BitsOfRun(of, {1, 2, 0, 4, "cpu:2"}) == alone);
  CHECK(BitsOfRun(of, {1, 2, 0, 4, "cpu:3"}) == alone);
}

TEST_CASE("synchronous training has the same bits on any number of devices of a worker") {
  SECTION("perceptron") { CheckSameBitsOnDevices(Perceptron()); }
  SECTION("convolution") { CheckSameBitsOnDevices(Convolution()); }
  SECTION("growing table") { CheckSameBitsOnDevices(GrowingTable()); }
  SECTION("values in 16 bits, for which no lanes are added up by workers") {
    BitsCase of = Perceptron();
    of.job["wire"] = "bf16";
    const std::string alone = BitsOfRun(of, {1, 2});
    CHECK(BitsOfRun(of, {2, 1, 0, 4, "cpu:4"}) == alone);
  }
}

// A lane is computed in four slices, on one device or by the stages of a worker.
TEST_CASE("synchronous training has the same bits where workers compute their model in stages") {
  BitsCase of = GENERATE(Perceptron(), GrowingTable());
  of.job["accumulate"] = 4;
  const std::string whole = BitsOfRun(of, {1, 2});
  of.job["stages"] = 2;
  CHECK(BitsOfRun(of, {1, 2, 0, 4, "cpu:2"}) == whole);
  CHECK(BitsOfRun(of, {2, 1, 0, 4, "cpu:2"}) == whole);
}

TEST_CASE("a worker whose devices are not those of its job's stages says which to give") {
  BitsCase of = Perceptron();
  of.job["accumulate"] = 4;
  of.job["stages"] = 2;
  Cluster cluster({.ps = 1, .workers = 1, .device = "cpu:3", .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  CHECK(cluster.at("worker:0").Wait(60000) == static_cast<int>(ExitCode::kConfiguration));
  CHECK(cluster.Logged("worker:0",
                       "stages: the model is cut into 2, each on a device of its own, and --device "
                       "cpu:3 is 3: give --device cpu:2"));
}

TEST_CASE("a worker with several devices has the bits of its job whatever is killed") {
  const BitsCase of = GENERATE(Perceptron(), GrowingTable());
  CHECK(BitsOfRun(of, {2, 2, 10, 60, "cpu:2"}) == BitsOfRun(of, {1, 1, 1, 60, "cpu:4"}));
}

TEST_CASE("NCCL is refused where it cannot add up, with the key and what is missing") {
  const std::string key = "cross_device_ops: \"nccl\" ";
  const auto& [device, why] = GENERATE_COPY(table<std::string, std::string>(
      {{"cuda:0,1", key + "cannot add up the gradients of cuda:0, cuda:1: NCCL is missing"},
       {"cpu:2", key + "adds up lanes of CUDA devices, and this worker computes on cpu"}}));
  BitsCase of = Perceptron();
  of.job["reduce"] = "fast";
  of.job["cross_device_ops"] = "nccl";
  Cluster cluster(
      {.ps = 1,
       .workers = 1,
       .device = device,
       .environment = {{"PARACORD_CUDA_PLUGIN", PARACORD_BIN_DIR "/fake_plugins/libtwo.so"}},
       .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  CHECK(cluster.at("worker:0").Wait(60000) == static_cast<int>(ExitCode::kConfiguration));
  CHECK(cluster.Logged("worker:0", why));
}

TEST_CASE("a bounded staleness has lanes on all devices of a worker, and async is refused them") {
  BitsCase of = Perceptron();
  of.job["epochs"] = 2;
  of.job["consistency"] = {{"staleness", 1}};
  {
    Cluster cluster({.ps = 1, .workers = 1, .device = "cpu:4", .job = of.job});
    WriteBitsData(cluster.root(), of);
    cluster.StartAll();
    CHECK(cluster.Finish(120000) == 0);
    CHECK(cluster.Summary().at("ledger").at("applied_min") == 2 * kBitsBatches);
  }
  of.job["consistency"] = "async";
  of.job["round_batches"] = nullptr;
  Cluster cluster({.ps = 1, .workers = 1, .device = "cpu:2", .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  CHECK(cluster.at("worker:0").Wait(60000) == static_cast<int>(ExitCode::kConfiguration));
  CHECK(cluster.Logged("worker:0", "--device cpu:2: several devices compute the lanes of a round"));
}

TEST_CASE("synchronous training has the same bits whatever is killed") {
  SECTION("perceptron") { CheckSameBitsWhateverIsKilled(Perceptron()); }
  SECTION("growing table") { CheckSameBitsWhateverIsKilled(GrowingTable()); }
}

// Trains on one cluster until SIGTERM to the coordinator, resumes the checkpoint on another
// cluster, and returns the digest at the end.
std::string BitsAfterMove(const BitsCase& of, const BitsRun& from, const BitsRun& to) {
  json job = of.job;
  job["epochs"] = to.epochs;
  Cluster first({.ps = from.ps, .workers = from.workers, .batch_ms = 5, .job = job});
  WriteBitsData(first.root(), of);
  first.StartAll();
  REQUIRE(first.WaitForBatches(to.epochs * kBitsBatches / 3));
  first.at("coordinator").Signal(SIGTERM);
  REQUIRE(first.at("coordinator").Wait(60000).has_value());
  first.KillAll();  // otherwise they would wait for a coordinator
  REQUIRE_FALSE(NewestCheckpoint(first.dir()).empty());
  Cluster second({.ps = to.ps, .workers = to.workers, .job = job});
  WriteBitsData(second.root(), of);
  std::filesystem::copy(first.dir(), second.dir(), std::filesystem::copy_options::recursive);
  second.StartAll();
  REQUIRE(second.Finish(120000) == 0);
  return BitsOf(second.dir());
}

TEST_CASE("synchronous training has the bits of its job on every cluster, through twenty kills",
          "[.slow]") {
  const auto of = GENERATE(as<BitsCase (*)()>(), Perceptron, Convolution, GrowingTable)();
  constexpr int kEpochs = 120;
  const std::string alone = BitsOfRun(of, {1, 1, 0, kEpochs});
  for (const uint32_t ps : {1u, 3u}) {
    for (const uint32_t workers : {1u, 2u, 4u}) {
      CAPTURE(ps, workers);
      CHECK(BitsOfRun(of, {ps, workers, 0, kEpochs}) == alone);
      CHECK(BitsOfRun(of, {ps, workers, 20, kEpochs}) == alone);
    }
  }
  CHECK(BitsAfterMove(of, {3, 4}, {1, 2, 0, kEpochs}) == alone);
  CHECK(BitsAfterMove(of, {1, 1}, {3, 4, 0, kEpochs}) == alone);
}

}  // namespace
}  // namespace paracord::e2e
