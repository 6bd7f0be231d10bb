// A running job moves to more and fewer ps by `paracord scale`, whoever is killed meanwhile.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "e2e/bits_job.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/process.h"

namespace paracord::e2e {
namespace {

nlohmann::json Sharded(uint64_t steps) {
  return {{"steps", steps}, {"partitioner", {{"kind", "fixed_shards"}, {"shards", 6}}}};
}

std::string ScaleLog(const Cluster& cluster) { return cluster.root() + "/scale.log"; }

// Runs `paracord scale` for so many ps, of which the job has `now`.
Exit Scale(Cluster& cluster, uint32_t ps, uint32_t now,
           std::vector<std::string> more = {"--wait"}) {
  std::vector<std::string> command = {PARACORD_BIN_DIR "/paracord",   "scale", "--address",
                                      cluster.address("coordinator"), "--ps",  absl::StrCat(ps)};
  for (uint32_t i = now; i < ps; ++i) {
    command.insert(command.end(), {"--ps-address", cluster.address(absl::StrCat("ps:", i))});
  }
  command.insert(command.end(), more.begin(), more.end());
  return Process(command, {}, ScaleLog(cluster)).Wait(60000).value_or(-1);
}

uint64_t PartitionsOf(Cluster& cluster, const std::string& task) {
  const nlohmann::json ps = cluster.StatusOf("ps", task);
  return ps.is_object() ? ps.value("partitions", uint64_t{0}) : 0;
}

TEST_CASE("a job that moves from one ps to three and to two applies every batch once") {
  constexpr uint64_t kSteps = 4000;
  Cluster cluster({.ps = 1, .spare_ps = 2, .batch_ms = 5, .job = Sharded(kSteps)});
  cluster.StartAll();
  cluster.Start("ps:1");
  cluster.Start("ps:2");
  REQUIRE(cluster.WaitForBatches(10));
  CHECK(Scale(cluster, 3, 1, {"--dry-run"}) == 0);
  const uint64_t all = PartitionsOf(cluster, "ps:0");
  CHECK(Scale(cluster, 3, 1) == 0);
  for (const char* task : {"ps:0", "ps:1", "ps:2"}) CHECK(PartitionsOf(cluster, task) > 0);
  const uint64_t then = cluster.BatchesDone();
  CHECK(cluster.WaitForBatches(then + 10));
  CHECK(Scale(cluster, 2, 3) == 0);
  CHECK(PartitionsOf(cluster, "ps:0") + PartitionsOf(cluster, "ps:1") == all);
  CHECK(cluster.at("ps:2").Wait(10000) == 143);  // drained
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
  // Without a death nothing is computed twice for a move, but for what was under way.
  const nlohmann::json summary = cluster.Summary();
  CHECK(summary.at("recoveries").at("ps") == 0);
  CHECK(summary.at("computed").get<uint64_t>() <= kSteps + 100);
}

TEST_CASE("moves that are asked for while anybody is killed lose and double no batch") {
  constexpr uint64_t kSteps = 6000;
  Cluster cluster({.ps = 2, .spare_ps = 2, .batch_ms = 5, .job = Sharded(kSteps)});
  cluster.StartAll();
  cluster.Start("ps:2");
  cluster.Start("ps:3");
  REQUIRE(cluster.WaitForBatches(1));
  int moved = 0;
  const std::vector<std::string> victims = {"coordinator", "ps:0", "worker:0", "ps:1", "ps:2"};
  for (uint32_t turn = 0; turn < 8 && cluster.BatchesDone() < kSteps * 4 / 5; ++turn) {
    const nlohmann::json status = cluster.Status();
    const uint32_t now = status.is_object() ? static_cast<uint32_t>(status.at("ps").size()) : 2;
    // Whether this move comes to be depends on who is killed in the midst of it.
    if (Scale(cluster, 1 + (turn * 3 + 2) % 4, now, {}) == 0) ++moved;
    WaitUntil(50 * (turn % 4), [] { return false; });
    Process& victim = cluster.at(victims[turn % victims.size()]);
    victim.Signal(SIGKILL);
    victim.Wait(10000);
    WaitUntil(1500, [&] {
      cluster.Supervise();
      return false;
    });
  }
  CHECK(moved > 0);
  CHECK(cluster.Finish(180000) == 0);
  CheckCounted(cluster.dir(), kSteps);
}

TEST_CASE("a synchronous job that moves has the bits of one that stays, growing tables too") {
  const BitsCase of = GENERATE(Perceptron(), GrowingTable());
  nlohmann::json job = of.job;
  job["epochs"] = 30;
  const auto bits = [&](bool moves) {
    Cluster cluster({.ps = 1, .spare_ps = 2, .batch_ms = 3, .job = job});
    WriteBitsData(cluster.root(), of);
    cluster.StartAll();
    cluster.Start("ps:1");
    cluster.Start("ps:2");
    REQUIRE(cluster.WaitForBatches(5));
    if (moves) {
      CHECK(Scale(cluster, 3, 1) == 0);
      CHECK(Scale(cluster, 2, 3) == 0);
    }
    CHECK(cluster.Finish(120000) == 0);
    if (moves) CHECK(cluster.Summary().at("rounds").at("rollbacks") == 0);
    return BitsOf(cluster.dir());
  };
  CHECK(bits(true) == bits(false));
}

TEST_CASE("`paracord scale` says why a job cannot move, and the job trains on") {
  Cluster cluster({.ps = 1, .spare_ps = 1, .batch_ms = 5, .job = Sharded(2000)});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  CHECK(Scale(cluster, 9, 9) == 2);
  CHECK_THAT(ReadText(ScaleLog(cluster)), Catch::Contains("cannot each hold one"));
  CHECK(Scale(cluster, 2, 2) == 2);
  CHECK_THAT(ReadText(ScaleLog(cluster)), Catch::Contains("nobody knows the address of ps:1"));
  CHECK(Scale(cluster, 1, 1) == 0);
  CHECK_THAT(ReadText(ScaleLog(cluster)), Catch::Contains("nothing to do: the job has 1 ps"));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 2000);
}

}  // namespace
}  // namespace paracord::e2e
