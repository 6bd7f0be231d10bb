// A ps with little memory trains on while strangers flood its port, and stays within its memory
// budget. The slow test takes minutes and the whole machine, and prints a table: during a flood, a
// step takes at most twice as long; 10 s after the flood everything is as before.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <future>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/descriptors.h"
#include "e2e/cluster.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "tests/flood/attacks.h"

namespace paracord::flood {
namespace {

using e2e::NowMs;
using e2e::StatusMiB;

constexpr uint64_t kLimitMiB = 512;
constexpr int64_t kAttackMs = 10000;
constexpr int64_t kCalmMs = 10000;  // time to recover

// Returns the mean time of a step over `ms`.
double StepMs(e2e::Cluster& cluster, int64_t ms) {
  const auto done = [&] {
    uint64_t batches = 0;
    e2e::WaitUntil(5000, [&] { return (batches = cluster.BatchesDone()) > 0; });
    return batches;
  };
  const uint64_t before = done();
  const int64_t begun_ms = NowMs();
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  const uint64_t after = done();
  return static_cast<double>(NowMs() - begun_ms) /
         static_cast<double>(std::max<uint64_t>(after - std::min(after, before), 1));
}

PsDescription Describe(const std::string& address) {
  GrpcNetwork network;
  const auto link = network.Dial(address);
  std::promise<absl::StatusOr<PsDescription>> promise;
  CallProto<PsDescription>(
      *link, method::kDescribe, DescribeRequest(), 5000,
      [&](absl::StatusOr<PsDescription> reply) { promise.set_value(std::move(reply)); });
  const absl::StatusOr<PsDescription> reply = promise.get_future().get();
  INFO(reply.status());
  REQUIRE(reply.ok());
  return *reply;
}

// Returns a job without end, with one ps and one worker.
e2e::ClusterOptions Endless(int batch_ms) {
  return {.ps = 1,
          .workers = 1,
          .tcp = true,
          .batch_ms = batch_ms,
          .job = {{"epochs", 100000}, {"checkpoint", {{"every_seconds", 5}}}}};
}

// Starts the cluster with a memory limit for the ps.
void StartAll(e2e::Cluster& cluster, uint64_t limit_mib) {
  cluster.Start(
      "ps:0", {},
      {absl::StrCat("--memory-limit=", limit_mib, "MiB"), "--listen", cluster.address("ps:0")});
  cluster.Start("coordinator");
  cluster.Start("worker:0");
  REQUIRE(cluster.WaitForBatches(20));
}

TEST_CASE("a ps in a short flood stays inside its memory, and trains on after it") {
  REQUIRE(WantDescriptors(4000).ok());
  e2e::Cluster cluster(Endless(/*batch_ms=*/1));
  constexpr uint64_t kLittleMiB = kLimitMiB;
  StartAll(cluster, kLittleMiB);
  const std::string address = cluster.address("ps:0");
  const PsDescription described = Describe(address);
  const pid_t ps = cluster.at("ps:0").pid();
  for (const Attack& attack : Attacks()) {
    CAPTURE(attack.name);
    std::atomic<bool> stop = false;
    std::thread strangers([&] { attack.run(address, described, stop); });
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    stop = true;
    strangers.join();
    CHECK(cluster.at("ps:0").running());
    CHECK(StatusMiB(ps, "VmHWM") <= kLittleMiB);
  }
  const uint64_t before = cluster.BatchesDone();
  CHECK(cluster.WaitForBatches(before + 20));
}

TEST_CASE("bursts of pings cost a ps hardly any memory") {
  REQUIRE(WantDescriptors(4000).ok());
  e2e::Cluster cluster(Endless(/*batch_ms=*/1));
  StartAll(cluster, kLimitMiB);
  const std::string address = cluster.address("ps:0");
  const pid_t ps = cluster.at("ps:0").pid();
  const uint64_t before = StatusMiB(ps, "VmHWM");
  const auto bursts = std::ranges::find(Attacks(), "bursts of pings", &Attack::name);
  REQUIRE(bursts != Attacks().end());
  std::atomic<bool> stop = false;
  std::thread strangers([&] { bursts->run(address, Describe(address), stop); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  stop = true;
  strangers.join();
  CHECK(StatusMiB(ps, "VmHWM") <= before + 100);
}

TEST_CASE("a ps in a flood keeps its memory and serves its worker", "[.slow]") {
  REQUIRE(WantDescriptors(4000).ok());
  e2e::Cluster cluster(Endless(/*batch_ms=*/50));
  StartAll(cluster, kLimitMiB);
  const std::string address = cluster.address("ps:0");
  const PsDescription described = Describe(address);
  const pid_t ps = cluster.at("ps:0").pid();
  const double calm_ms = StepMs(cluster, 5000);
  std::printf("%-22s %9s %9s %9s %12s\n", "", "step", "flooded", "after", "peak memory");
  for (const Attack& attack : Attacks()) {
    CAPTURE(attack.name);
    std::atomic<bool> stop = false;
    std::thread strangers([&] { attack.run(address, described, stop); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    const double flooded_ms = StepMs(cluster, kAttackMs);
    stop = true;
    strangers.join();
    double after_ms = 0;
    const int64_t ended_ms = NowMs();
    do {
      after_ms = StepMs(cluster, 2000);
    } while (after_ms > 1.25 * calm_ms && NowMs() - ended_ms < kCalmMs);
    const uint64_t peak = StatusMiB(ps, "VmHWM");
    std::printf("%-22s %6.1f ms %6.1f ms %6.1f ms %8lu MiB\n", attack.name.c_str(), calm_ms,
                flooded_ms, after_ms, static_cast<unsigned long>(peak));
    std::fflush(stdout);
    CHECK(cluster.at("ps:0").running());
    CHECK(peak <= kLimitMiB);
    CHECK(flooded_ms <= 2 * calm_ms);
    CHECK(after_ms <= 1.25 * calm_ms);
  }
}

}  // namespace
}  // namespace paracord::flood
