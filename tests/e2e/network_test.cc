// Processes that hang without dying, and networks that are cut.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/proxy.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kNetworkSteps = 700;

nlohmann::json QuickTimeouts() {
  return {{"steps", kNetworkSteps}, {"timeouts", {{"worker_ms", 500}, {"ps_ms", 500}}}};
}

bool Passed(int64_t ms) {
  const int64_t until = NowMs() + ms;
  return WaitUntil(ms + 1000, [until] { return NowMs() >= until; });
}

TEST_CASE("a process that is stopped beyond its timeout and goes on does no harm") {
  const std::string task = GENERATE("worker:0", "ps:1", "coordinator");
  CAPTURE(task);
  Cluster cluster({.batch_ms = 4, .job = QuickTimeouts()});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  for (int i = 0; i < 2; ++i) {
    cluster.at(task).Signal(SIGSTOP);
    REQUIRE(Passed(1000));
    cluster.at(task).Signal(SIGCONT);
    REQUIRE(Passed(300));
  }
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kNetworkSteps);
  if (task == "worker:0") CHECK(cluster.Logged("coordinator", "worker:0 left: it was silent"));
  if (task == "ps:1") CHECK(cluster.Logged("coordinator", "ps:1 is away"));
}

// Routes all traffic to ps:1 through a relay. The relay cuts off worker:0 (by its pid) or
// everybody.
void CutAndHeal(Proxy::Mode mode, bool only_one_worker) {
  Cluster cluster({.batch_ms = 4, .job = QuickTimeouts()});
  const std::string relay = cluster.root() + "/relay";
  Proxy proxy(relay, cluster.root() + "/ps-1");
  cluster.Announce("ps:1", "unix:" + relay);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(100));
  for (int i = 0; i < 3; ++i) {
    proxy.set_mode(mode, only_one_worker ? cluster.at("worker:0").pid() : 0);
    REQUIRE(Passed(i == 0 ? 1200 : 300));
    proxy.set_mode(Proxy::Mode::kPass);
    REQUIRE(Passed(200));
  }
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kNetworkSteps);
  CHECK(cluster.Summary().at("recoveries").at("ps") == 0);
  const bool noticed = cluster.Logged("coordinator", "ps:1 is away");
  CHECK(noticed == !only_one_worker);
}

TEST_CASE("a network that loses everything for a while loses no batch") {
  CutAndHeal(Proxy::Mode::kBlackHole, GENERATE(true, false));
}
TEST_CASE("a network that loses answers has no batch applied twice") {
  CutAndHeal(Proxy::Mode::kDropReplies, GENERATE(true, false));
}
TEST_CASE("a network that breaks connections loses no batch") {
  CutAndHeal(Proxy::Mode::kReset, GENERATE(true, false));
}

}  // namespace
}  // namespace paracord::e2e
