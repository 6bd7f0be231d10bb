// Lives of workers and coordinators that overlap or follow each other, and ends of jobs.
#include <catch2/catch.hpp>

#include "tests/coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("an earlier life of a worker that comes back is sent away, and no batch suffers") {
  CoreHarness harness;
  harness.Join("worker:0");
  const uint64_t old_life = harness.Join("worker:1", 40, 0, "old");
  REQUIRE(old_life != 0);
  for (int i = 0; i < 20; ++i) {
    const uint64_t new_life = harness.Join("worker:1", 40, 0, "new");
    REQUIRE(new_life != 0);
    REQUIRE(harness.Work(new_life).has_lease());
    CHECK(harness.Work(old_life).has_rejoin());
    CHECK(harness.Join("worker:1", 40, 0, "old") == 0);
    CHECK(harness.joins[harness.call].leave().exit_code() == static_cast<int>(ExitCode::kInUse));
    harness.Run(200);
  }
  CHECK_FALSE(harness.exit.has_value());
  CHECK(harness.log.find("the worker died") == std::string::npos);
  CHECK(harness.log.find("rejected") == std::string::npos);
}

TEST_CASE("a life that fell silent before another took its place is sent away too") {
  CoreHarness harness([](Job& job) { job.timeouts.worker_ms = 500; });
  REQUIRE(harness.Join("worker:0", 40, 0, "old") != 0);
  harness.Run(1000);
  const uint64_t session = harness.Join("worker:0", 40, 0, "new");
  REQUIRE(session != 0);
  CHECK(harness.Join("worker:0", 40, 0, "old") == 0);
  CHECK(harness.joins[harness.call].leave().exit_code() == static_cast<int>(ExitCode::kInUse));
  CHECK(harness.Work(session).has_lease());
}

TEST_CASE("a coordinator that only leaves itself tells no worker to leave") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  harness.hold_summary = true;
  harness.Feed(DrainEvent());
  harness.Run(200);
  REQUIRE(harness.core->phase() == CoordinatorCore::Phase::kEnded);
  REQUIRE_FALSE(harness.exit.has_value());
  CHECK_FALSE(harness.Work(session).has_leave());
  CHECK_FALSE(harness.Work(session + 100).has_leave());
}

TEST_CASE("a ps that holds what was trained keeps the job alive past the start-up deadline") {
  const auto edit = [](Job& job) { job.timeouts.start_s = 5; };
  CoreHarness earlier(edit);
  earlier.Join("worker:0");
  earlier.Run(200);
  CoreHarness later(
      [&](Job& job) {
        edit(job);
        job.timeouts.ps_return_s = 60;
      },
      After(earlier), &earlier, /*away=*/{1});
  later.Run(20000);
  CHECK_FALSE(later.exit.has_value());
  later.Feed(DrainEvent());
  later.Run(1000);
  CHECK_FALSE(later.exit.has_value());  // ps:1 may come back before drain_ms is over
  later.dead.clear();
  later.Run(5000);
  REQUIRE(later.exit.has_value());
  CHECK(later.exit->reason == "SIGTERM, after a checkpoint");
  CHECK(later.committed.size() == 1);
}

}  // namespace
}  // namespace paracord
