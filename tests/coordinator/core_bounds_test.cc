// A worker can take only a bounded share of a coordinator, whatever it says.
#include <catch2/catch.hpp>
#include <string>

#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("a session that claims more leases than a worker needs gets no others") {
  CoreHarness harness;
  constexpr uint64_t kRecords = 2000;  // 100 splits
  const uint64_t hoarder = harness.Join("worker:0", kRecords);
  const uint64_t other = harness.Join("worker:1", kRecords);
  WorkRequest request;
  request.set_session(hoarder);
  request.set_want_task(true);
  const auto ask = [&] {
    harness.Feed(WorkEvent{++harness.call, request});
    return harness.works[harness.call];
  };
  for (uint64_t i = 0; i < kLeasesOfSessionMax; ++i) {
    const WorkReply reply = ask();
    REQUIRE(reply.has_lease());
    request.add_holds(reply.lease().id());
  }
  CHECK_FALSE(ask().has_lease());
  CHECK(harness.Work(other).has_lease());
  // The session gets another lease once it returns one.
  *request.add_leases() = CoreHarness::Done([&] {
    Lease lease;
    lease.set_id(request.holds(0));
    return lease;
  }());
  request.mutable_holds()->SwapElements(0, request.holds_size() - 1);
  request.mutable_holds()->RemoveLast();
  CHECK(ask().has_lease());
}

TEST_CASE("a task that begins sessions all the time has to wait, and the others do not") {
  CoreHarness harness;
  const auto join = [&](const std::string& task, uint32_t life) {
    JoinRequest request;
    request.set_task(task);
    request.set_boot_id("life-" + std::to_string(life));
    request.set_protocol(kProtocol);
    *request.mutable_facts() = harness.Facts();
    harness.Feed(JoinEvent{++harness.call, request});
    return harness.joins[harness.call];
  };
  REQUIRE(harness.Join("worker:0") != 0);
  for (uint32_t life = 1; life < kSessionsAMinuteMax; ++life) {
    REQUIRE(join("worker:0", life).has_session());
  }
  CHECK(join("worker:0", 99).wait() == "worker:0 has joined 30 times in a minute");
  CHECK(join("worker:1", 1000).has_session());
  SECTION("for the rest of a minute") { harness.Run(61000); }
  SECTION("or until a new generation makes all of them join again") {
    harness.ps[0].set_boot_id("boot-new");
    harness.ps[0].clear_run_id();
    harness.ps[0].clear_partitions();
    harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("killed")});
    harness.Run(500);
    REQUIRE(harness.core->generation() == 2);
  }
  CHECK(join("worker:0", 100).has_session());
}

TEST_CASE("a worker that says more of a job than can be kept is refused") {
  CoreHarness harness;
  JoinRequest request;
  request.set_task("worker:0");
  request.set_boot_id("life");
  request.set_protocol(kProtocol);
  *request.mutable_facts() = harness.Facts();
  request.mutable_facts()->add_metric_names(std::string(17 << 20, 'm'));
  harness.Feed(JoinEvent{++harness.call, request});
  const JoinReply reply = harness.joins[harness.call];
  CHECK(reply.leave().exit_code() == 2);
  CHECK(reply.leave().reason() ==
        "facts: what a worker found in the job's files has 17.0 MiB, and at most 16.0 MiB are "
        "taken");
  CHECK(harness.Join("worker:1") != 0);
}

}  // namespace
}  // namespace paracord
