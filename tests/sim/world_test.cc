#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/toy_cluster.h"
#include "sim/world/coverage.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

uint64_t TraceOf(uint64_t seed, bool* right = nullptr) {
  SimWorld world(seed);
  ToyCluster cluster(world, 2, 20);
  const bool was_right = cluster.Run(8'000, 120'000);
  if (right != nullptr) *right = was_right;
  INFO(world.Report());
  CHECK(was_right);
  return world.trace().hash();
}

uint64_t FirstFound(ToyMutant mutant, uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SimWorld world(seed);
    ToyCluster cluster(world, 2, 20, mutant);
    if (!cluster.Run(8'000, 120'000)) return seed;
  }
  return 0;
}

TEST_CASE("one seed always gives one trace, and two seeds give two") {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const uint64_t hash = TraceOf(seed);
    CHECK(hash == TraceOf(seed));
    hashes.insert(hash);
  }
  CHECK(hashes.size() == 100);
}

TEST_CASE("a replayed seed writes the same trace line by line") {
  std::ostringstream traces[2];
  for (std::ostringstream& trace : traces) {
    SimWorld world(7);
    world.trace().WriteTo(&trace);
    ToyCluster cluster(world, 2, 20);
    cluster.Run(8'000, 120'000);
  }
  CHECK(traces[0].str().size() > 10'000);
  CHECK(traces[0].str() == traces[1].str());
}

TEST_CASE("a correct toy cluster stays correct under every kind of fault, and each kind happens") {
  const Coverage coverage;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    bool right = false;
    TraceOf(seed, &right);
    if (!right) break;
  }
  // The toy cluster does not reach these probes. Other simulation tests do.
  const std::vector<std::string> others = {"sim.claim_half_done",
                                           "sim.claim_lost",
                                           "sim.damaged_checkpoint",
                                           "sim.delta_checkpoint",
                                           "sim.invented",
                                           "sim.land",
                                           "sim.land_torn",
                                           "sim.link_destroyed",
                                           "sim.move",
                                           "sim.object.answer_lost",
                                           "sim.object.late_put",
                                           "sim.object.refused",
                                           "sim.object.upload",
                                           "sim.pull.ready",
                                           "sim.pull.waits",
                                           "sim.report_ahead",
                                           "sim.restored",
                                           "sim.resumed",
                                           "sim.retained",
                                           "sim.second_coordinator",
                                           "sim.sigterm",
                                           "sim.sync.before",
                                           "sim.sync.cut",
                                           "sim.sync.out_of_range",
                                           "sim.sync.waits"};
  CHECK(coverage.Missing("sim.") == others);
}

TEST_CASE("the simulator finds the toy clusters that are broken") {
  CHECK(FirstFound(ToyMutant::kAckEarly, 300) > 0);
  CHECK(FirstFound(ToyMutant::kNoDirectorySync, 300) > 0);
  CHECK(FirstFound(ToyMutant::kCountTwice, 300) > 0);
  CHECK(FirstFound(ToyMutant::kForgetSession, 300) > 0);
}

TEST_CASE("functions posted to a loop run in order, timers never early, cancelled ones never") {
  SimWorld world(1, Swarm());
  SimNode& node = world.Start("node", 0);
  EventLoop& loop = node.environment().loop;
  std::vector<int> order;
  const int64_t start = loop.NowMs();
  int64_t fired = 0;
  loop.PostAfter(10, [&] { fired = loop.NowMs(); });
  const EventLoop::TimerId never = loop.PostAfter(5, [&] { order.push_back(99); });
  for (int i = 0; i < 3; ++i) {
    loop.Post([&order, i] { order.push_back(i); });
  }
  loop.Post([&] { loop.Cancel(never); });
  CHECK(world.Run(1000) == SimWorld::End::kQuiet);
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(fired >= start + 10);
  loop.Cancel(never);
}

TEST_CASE("a killed process runs nothing any more, a paused one runs it later") {
  SimWorld world(1, Swarm());
  SimNode& dead = world.Start("dead", 0);
  SimNode& slow = world.Start("slow", 1);
  bool dead_ran = false;
  bool dead_told = false;
  int64_t slow_ran_us = 0;
  int64_t slow_worked_us = 0;
  dead.OnDeath([&](Death death) { dead_told = death == Death::kKill; });
  dead.environment().loop.PostAfter(10, [&] { dead_ran = true; });
  dead.environment().executor.Run([&] { dead_ran = true; }, [&] { dead_ran = true; });
  slow.environment().loop.PostAfter(10, [&] { slow_ran_us = world.now_us(); });
  slow.environment().executor.Run([] {}, [&] { slow_worked_us = world.now_us(); });
  world.Kill(dead, Death::kKill);
  dead.environment().loop.Post([&] { dead_ran = true; });
  world.Pause(slow);
  world.After(500'000, nullptr, EventKind::kWorld, "resume", 0, [&] { world.Resume(slow); });
  CHECK(world.Run(1000) == SimWorld::End::kQuiet);
  CHECK(dead_told);
  CHECK_FALSE(dead_ran);
  CHECK(slow_ran_us == 500'000);
  CHECK(slow_worked_us == 500'000);
}

TEST_CASE(
    "a role that kills itself in an event ends after it, and what it does meanwhile is void") {
  SimWorld world(1, Swarm());
  SimNode& node = world.Start("node", 0);
  bool told = false;
  bool told_inside = false;
  bool later = false;
  node.OnDeath([&](Death) { told = true; });
  node.environment().loop.Post([&] {
    world.Kill(node, Death::kKill);
    told_inside = told;
    node.environment().loop.Post([&] { later = true; });
    CHECK_FALSE(node.environment().files.MakeDirectories("/made").ok());
  });
  world.Run(1000);
  CHECK(told);
  CHECK_FALSE(told_inside);
  CHECK_FALSE(later);
  CHECK_FALSE(world.storage().Find("/made").ok());
}

TEST_CASE("a process can be made to die at its n-th event or in its n-th operation") {
  SimWorld world(1, Swarm());
  SimNode& by_event = world.Start("by_event", 0);
  int ran = 0;
  by_event.DieAtEvent(3, Death::kKill);
  for (int i = 0; i < 5; ++i) by_event.environment().loop.Post([&] { ++ran; });
  SimNode& by_operation = world.Start("by_operation", 1);
  by_operation.DieAtOperation(2, Death::kKill);
  std::vector<bool> made;
  by_operation.environment().loop.Post([&] {
    for (const char* path : {"/a", "/b", "/c"}) {
      made.push_back(by_operation.environment().files.MakeDirectories(path).ok());
    }
  });
  world.Run(1000);
  CHECK(ran == 3);
  CHECK(made == std::vector<bool>{true, false, false});
  CHECK(by_operation.state() == SimNode::State::kDead);
}

TEST_CASE("an executor does one work after the other and `done` after each") {
  Swarm swarm;
  swarm.slow_work = 0.5;
  SimWorld world(3, swarm);
  SimNode& node = world.Start("node", 0);
  std::string order;
  for (const char* name : {"a", "b", "c"}) {
    node.environment().executor.Run([&order, name] { order += name; },
                                    [&order, name] { order += std::string("(") + name + ")"; });
  }
  world.Run(20'000);
  CHECK(order == "a(a)b(b)c(c)");
}

TEST_CASE("a found violation ends the run and is reported with its seed") {
  SimWorld world(11, Swarm());
  int checks = 0;
  world.AfterEveryEvent([&] {
    if (++checks == 2) world.Violation("something is wrong");
  });
  SimNode& node = world.Start("node", 0);
  for (int i = 0; i < 5; ++i) node.environment().loop.Post([] {});
  CHECK(world.Run(1000) == SimWorld::End::kViolation);
  CHECK(checks == 2);
  CHECK(world.Report().find("seed 11") != std::string::npos);
  CHECK(world.Report().find("something is wrong") != std::string::npos);
}

TEST_CASE("a run that never comes to rest ends at its step limit") {
  SimWorld world(1, Swarm());
  SimNode& node = world.Start("node", 0);
  world.set_step_limit(100);
  std::function<void()> again = [&] { node.environment().loop.Post(again); };
  node.environment().loop.Post(again);
  CHECK(world.Run(1000) == SimWorld::End::kStepLimit);
  CHECK(world.steps() == 100);
}

TEST_CASE("wall clocks jump, steady clocks do not") {
  SimWorld world(1, Swarm());
  SimNode& node = world.Start("node", 0);
  EventLoop& loop = node.environment().loop;
  const int64_t steady = loop.NowMs();
  const int64_t wall = loop.UnixMs();
  world.JumpWallClock(0, -5000);
  CHECK(loop.NowMs() == steady);
  CHECK(loop.UnixMs() == wall - 5000);
}

// Once, the world could kill no process after an exception, and nodes outlived their watchers.
TEST_CASE("an exception in a process is a violation, and the world goes on to its end") {
  SimWorld world(1, Swarm());
  SimNode& node = world.Start("thrower", 1);
  bool died = false;
  node.OnDeath([&](Death) { died = true; });
  node.environment().loop.Post([] { throw std::out_of_range("thrown on purpose"); });
  CHECK(world.Run(1000) == SimWorld::End::kViolation);
  CHECK(world.violation().find("thrown on purpose") != std::string::npos);
  world.Kill(node, Death::kKill);
  CHECK(died);
}

}  // namespace
}  // namespace paracord
