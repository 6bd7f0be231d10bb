// Further holders of partitions in synchronous training: real ps and workers, whose messages are
// lost, late and repeated, and ps and workers that die.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "sim/hot_cluster.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

constexpr int64_t kLongMs = 120000;  // of virtual time, for a job that takes a second of it

// PARACORD_SIM_SEEDS is how many seeds of a kind are run.
uint64_t HotSeeds(uint64_t otherwise) {
  spdlog::set_level(spdlog::level::off);
  const char* const text = std::getenv("PARACORD_SIM_SEEDS");
  uint64_t seeds = 0;
  return text != nullptr && absl::SimpleAtoi(text, &seeds) ? seeds : otherwise;
}

HotPlan DrawnFor(uint64_t seed) { return HotPlan::Draw(SimRandom(seed * 7919)); }

// A job of one kind of variable without faults of messages.
HotPlan CalmPlan(uint32_t ps, bool growing) {
  spdlog::set_level(spdlog::level::off);
  HotPlan plan = DrawnFor(1);
  plan.faults = false;
  plan.ps = ps;
  plan.workers = 1;
  plan.lanes = 2;
  plan.job.optimizer = {"adam", {{"learning_rate", 0.125}}};
  plan.job.wire = "float32";
  plan.staged_push_bytes = uint64_t{1} << 20;
  plan.counting = CountingOptions();
  plan.counting.records = 16;
  plan.counting.batches = 8;
  plan.counting.rows = 4;
  plan.counting.trained = 2;
  plan.counting.frozen = true;
  plan.counting.tables = plan.counting.growing = plan.counting.lazy = growing;
  return plan;
}

TEST_CASE("all holders end with the bits of one, although messages are lost, late and repeated") {
  for (uint64_t seed = 1; seed <= HotSeeds(60); ++seed) {
    const HotPlan plan = DrawnFor(seed);
    INFO("seed " << seed << ": " << plan.ToString());
    HotCluster cluster(seed, plan);
    SimRandom random(seed);
    if (random.Chance(0.6)) {
      cluster.AfterExchanges(static_cast<uint64_t>(random.Between(1, 40)), [&] {
        cluster.RestartWorker(static_cast<uint32_t>(random.Between(0, plan.workers - 1)));
      });
    }
    const bool done = cluster.Run(kLongMs);
    INFO(cluster.ToString());
    REQUIRE(done);
    REQUIRE(cluster.Difference() == "");
    for (const std::string& report : cluster.reports())
      REQUIRE_FALSE(absl::StartsWith(report, "stale"));
  }
}

TEST_CASE("the holders that are left go on without a load, wherever a ps dies") {
  uint64_t before = 0;  // promotions at which holders were at two states
  for (uint64_t seed = 1; seed <= HotSeeds(120); ++seed) {
    HotPlan plan = DrawnFor(seed);
    SimRandom random(seed);
    plan.faults = random.Chance(0.5);
    INFO("seed " << seed << ": " << plan.ToString());
    HotCluster cluster(seed, plan);
    const auto dies = static_cast<uint32_t>(random.Between(0, plan.ps - 1));
    std::string lost;
    uint64_t state = 0;
    cluster.AfterExchanges(static_cast<uint64_t>(random.Between(1, 60)), [&] {
      if (cluster.Done()) return;
      if (random.Chance(0.5)) cluster.RestartWorker(0);
      cluster.KillPs(dies);
      std::vector<uint64_t> states;
      for (uint32_t ps = 0; ps < plan.ps; ++ps) {
        for (const uint64_t each : cluster.StatesOf(ps)) states.push_back(each);
      }
      state = *std::ranges::min_element(states);
      const uint64_t most = *std::ranges::max_element(states);
      if (most > state) ++before;
      lost = cluster.Promote();
      // At most the round under way is computed again.
      for (uint32_t ps = 0; ps < plan.ps; ++ps) {
        for (const uint64_t each : cluster.StatesOf(ps)) CHECK(each + 1 >= most);
      }
    });
    const bool done = cluster.Run(kLongMs);
    INFO(cluster.ToString());
    REQUIRE(done);
    REQUIRE(lost == "");
    REQUIRE(cluster.Difference() == "");
  }
  CHECK(before > 0);
}

TEST_CASE("a further holder gets every push, and no value travels from it") {
  const bool growing = GENERATE(false, true);
  HotPlan plan = CalmPlan(/*ps=*/1, growing);
  HotCluster alone(1, plan);
  plan.ps = 2;
  HotCluster both(1, plan);
  REQUIRE(alone.Run(kLongMs));
  REQUIRE(both.Run(kLongMs));
  CHECK(alone.Difference() == "");
  CHECK(both.Difference() == "");
  uint64_t pushed = 0, pulled = 0;
  for (const HotTraffic& traffic : both.traffic()) {
    CHECK(traffic.pushed_bytes > 0);
    pushed += traffic.pushed_bytes;
    pulled += traffic.pulled_bytes;
  }
  CHECK(pulled == alone.traffic()[0].pulled_bytes);
  // Ids of rows that are pulled go to the first holder alone.
  CHECK(pushed > alone.traffic()[0].pushed_bytes * 3 / 2);
  CHECK(pushed <= alone.traffic()[0].pushed_bytes * 2);
  if (!growing) CHECK(pushed == alone.traffic()[0].pushed_bytes * 2);
}

TEST_CASE("a round ends when its slowest holder has it") {
  HotCluster cluster(1, CalmPlan(/*ps=*/2, GENERATE(false, true)));
  while (cluster.StatesOf(0)[0] < 2) REQUIRE_FALSE(cluster.Run(5));
  const uint32_t slow = GENERATE(0u, 1u);
  cluster.Stall(slow, true);
  const uint64_t state = cluster.StatesOf(slow)[0];
  CHECK_FALSE(cluster.Run(390));  // less than the deadline of a call
  CHECK(cluster.StatesOf(slow).back() == state);
  CHECK(cluster.StatesOf(1 - slow).back() <= state + 1);
  cluster.Stall(slow, false);
  REQUIRE(cluster.Run(kLongMs));
  CHECK(cluster.Difference() == "");
}

TEST_CASE("a holder that dies breaks exchanges as any ps does") {
  const uint32_t dies = GENERATE(0u, 1u);
  HotCluster cluster(1, CalmPlan(/*ps=*/2, false));
  while (cluster.StatesOf(0)[0] < 2) REQUIRE_FALSE(cluster.Run(5));
  const size_t before = cluster.reports().size();
  cluster.KillPs(dies);
  CHECK_FALSE(cluster.Run(3000));
  CHECK(cluster.StatesOf(1 - dies).back() <= 3);
  const auto unreachable = [](const std::string& report) {
    return absl::StartsWith(report, "PROBLEM_UNREACHABLE");
  };
  CHECK(std::ranges::none_of(std::span(cluster.reports()).first(before), unreachable));
  CHECK(std::ranges::any_of(cluster.reports(), unreachable));
  CHECK(cluster.Promote() == "");
  REQUIRE(cluster.Run(kLongMs));
  CHECK(cluster.Difference() == "");
  for (const PartitionSpec& spec : cluster.session().partitions()) {
    CHECK(spec.ps() == 1 - dies);
    CHECK(spec.copies().empty());
  }
}

}  // namespace
}  // namespace paracord
