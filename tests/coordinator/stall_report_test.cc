#include "coordinator/core/stall_report.h"

#include <catch2/catch.hpp>

#include "coordinator/core_harness.h"

namespace paracord {
namespace {

std::vector<std::string> SaidBy(Effects& effects) {
  std::vector<std::string> said;
  for (const Effect& effect : effects.Take()) said.push_back(std::get<Log>(effect).text);
  return said;
}

TEST_CASE("who is missing is said now and again until a worker has joined") {
  CoreHarness harness({}, {}, nullptr, {1});
  Effects effects;
  StallReport waits(0, effects);
  waits.Say(harness.core->View(), 1999);
  CHECK(SaidBy(effects).empty());
  waits.Say(harness.core->View(), 2000);
  const std::vector<std::string> said = SaidBy(effects);
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with("waits: missing ps:1 at unix:/ps-1"));
  CHECK(said[0].ends_with("a worker (none has joined)"));
  waits.Say(harness.core->View(), 31999);
  CHECK(SaidBy(effects).empty());
  waits.Say(harness.core->View(), 32000);
  CHECK(SaidBy(effects).size() == 1);
  CoreHarness formed;
  REQUIRE(formed.Join("worker:0") != 0);
  StallReport(formed.now - 2000, effects).Say(formed.core->View(), formed.now);
  CHECK(SaidBy(effects).empty());
}

TEST_CASE("a worker that waits to join is not one that has not joined") {
  CoreHarness away({}, {}, nullptr, {1});
  away.Join("worker:0");
  const std::string missing = MissingTasks(away.core->View());
  INFO(missing);
  CHECK(missing.find("none has joined") == std::string::npos);
  CHECK(missing.find("1 worker waits to join") != std::string::npos);
}

TEST_CASE("what keeps training is said once, whatever its numbers") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  Effects effects;
  StallReport waits(0, effects);
  const auto say = [&] { waits.Say(harness.core->View(), harness.now); };
  say();
  CHECK(SaidBy(effects).empty());
  harness.hung.insert(1);
  harness.Run(3500);
  CHECK(Stalls(harness.core->View(), harness.now).starts_with("ps:1 at unix:/ps-1 has not answ"));
  say();
  CHECK(SaidBy(effects).size() == 1);
  harness.Run(1000);
  say();
  CHECK(SaidBy(effects).empty());
}

}  // namespace
}  // namespace paracord
