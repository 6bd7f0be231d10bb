// A job that moves to more or fewer ps, for tests of the coordinator's core.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {

// Asks for so many ps, and lets the coordinator run for a while.
inline void Scale(CoreHarness& harness, uint32_t ps, std::vector<std::string> addresses = {},
                  bool dry_run = false) {
  ScaleRequest request;
  request.set_ps(ps);
  request.set_dry_run(dry_run);
  for (std::string& address : addresses) request.add_addresses(std::move(address));
  harness.Feed(ScaleEvent{++harness.call, request});
  harness.Run(500);
}

inline nlohmann::json MoveOf(const CoreHarness& harness) {
  return JsonOf(harness.Told().StatusJson()).value("move", nlohmann::json());
}

inline std::string WhyNot(const CoreHarness& harness) {
  return std::string(harness.scaled.status().message());
}

// A worker enters the first split.
inline uint64_t TrainOneSplit(CoreHarness& harness) {
  const uint64_t session = harness.Join("worker:0");
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.Enter(reply.lease());
  harness.Work(session, {CoreHarness::Done(reply.lease())}, false);
  return session;
}

// The process of ps:1 was started again, and holds nothing.
inline void RestartSecondPs(CoreHarness& harness) {
  PsDescription& second = harness.ps[1];
  second.clear_run_id();
  second.clear_partitions();
  second.set_generation(0);
  second.set_coordinator_boot_id("");
  second.set_boot_id(second.boot_id() + "-again");
  harness.finished.clear();
}

}  // namespace paracord
