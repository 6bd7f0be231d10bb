// These tests show that one worker can take a bounded part of a coordinator, whatever it says.
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
  // The session gets the next one once it gives one back.
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
  harness.Run(61000);
  CHECK(join("worker:0", 100).has_session());
}

}  // namespace
}  // namespace paracord
