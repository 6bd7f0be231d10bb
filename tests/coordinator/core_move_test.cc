// A running job moves to more or fewer ps: when its layout is durable, and not before.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/move_job.h"
#include "coordinator/sync_job.h"

namespace paracord {
namespace {

TEST_CASE("a job moves to fewer ps by a closing checkpoint and a layout, and trains on") {
  CoreHarness harness;
  const uint64_t session = TrainOneSplit(harness);
  const size_t loads = harness.loads.size();
  Scale(harness, 1);
  REQUIRE(harness.scaled.ok());
  const nlohmann::json plan = JsonOf(harness.scaled->json());
  CHECK(plan.at("ps") == 1);
  CHECK(plan.at("partitions") == 2);
  CHECK(plan.at("by_ps").size() == 2);
  // What was entered is in the closing checkpoint, which a generation without workers wrote.
  REQUIRE(harness.committed.size() == 1);
  CHECK(harness.committed[0].name.step == 2);
  CHECK(harness.committed[0].name.generation == 2);
  REQUIRE(harness.loads.size() == loads + 1);
  CHECK(harness.loads.back().partitions_size() == 4);
  CHECK(harness.loads.back().retain());
  CHECK(harness.loads.back().checkpoint() == harness.committed[0].name.ToString());
  CHECK(harness.finished == std::set<uint32_t>{1});
  CHECK(harness.core->generation() == 3);
  const JobState state = ParseJobState(harness.job_state, "job.state").value();
  REQUIRE(state.layout.has_value());
  CHECK(state.layout->version == 1);
  CHECK(state.layout->ps == std::vector<std::string>{"unix:/ps-0"});
  CHECK(state.layout->given == std::vector<std::string>{"unix:/ps-0", "unix:/ps-1"});
  CHECK(state.layout->holders == std::vector<uint32_t>{0, 0, 0, 0});
  CHECK(MoveOf(harness).at("phase") == "done");
  CHECK(harness.Work(session).has_rejoin());
  const uint64_t again = harness.Join("worker:0");
  REQUIRE(again != 0);
  CHECK(harness.joins[harness.call].session().ps_size() == 1);
  TrainAll(harness, again);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
  CHECK(JsonOf(harness.summary).at("recoveries").at("ps") == 0);
}

TEST_CASE("a job moves back to a ps that it was started with, without being told its address") {
  CoreHarness harness;
  TrainOneSplit(harness);
  Scale(harness, 1);
  RestartSecondPs(harness);
  Scale(harness, 2);
  REQUIRE(harness.scaled.ok());
  CHECK(JsonOf(harness.scaled->json()).at("partitions") == 2);
  CHECK(MoveOf(harness).at("phase") == "done");
  CHECK(MoveOf(harness).at("version") == 2);
  CHECK(harness.ps[0].partitions_size() == 2);
  CHECK(harness.ps[1].partitions_size() == 2);
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("the next coordinator finds the layout that is durable, old or new") {
  CoreHarness harness;
  TrainOneSplit(harness);
  harness.hold_state = true;
  const std::string before = harness.job_state;
  Scale(harness, 1);
  CHECK(MoveOf(harness).at("phase") == "writing the layout");
  CHECK(harness.finished.empty());
  FoundInDir found = After(harness);
  found.generation += 1;
  found.manifests = {harness.committed.back()};
  SECTION("it was written: the partitions are where it says") {
    CoreHarness next({}, found, &harness);
    next.Run(500);
    CHECK(next.core->View().ps.size() == 1);
    CHECK(JsonOf(next.Told().StatusJson()).at("layout_version") == 1);
    REQUIRE_FALSE(next.loads.empty());
    CHECK(next.loads.back().partitions_size() == 4);
    CHECK_FALSE(next.loads.back().retain());
    TrainAll(next, next.Join("worker:0"));
    REQUIRE(next.exit.has_value());
    CHECK(next.exit->code == 0);
  }
  SECTION("it was not: nothing has moved") {
    found.job_state = ParseJobState(before, "job.state").value();
    CoreHarness next({}, found, &harness);
    next.Run(500);
    CHECK(next.core->View().ps.size() == 2);
    CHECK(next.loads.empty());
    CHECK(MoveOf(next).is_null());
  }
}

TEST_CASE("a layout that cannot be written leaves the job where it is, after three tries") {
  CoreHarness harness;
  TrainOneSplit(harness);
  harness.state_status = absl::ResourceExhaustedError("/job: no space left");
  Scale(harness, 1);
  harness.Run(10'000);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(MoveOf(harness).at("problem").get<std::string>(),
             Catch::Contains("job.state is not written: /job: no space left"));
  CHECK(harness.committed.size() == 3);
  CHECK(harness.finished.empty());
  harness.state_status = absl::OkStatus();
  harness.Run(2000);
  CHECK_FALSE(ParseJobState(harness.job_state, "job.state")->layout.has_value());
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("a closing checkpoint that fails leaves the job where it is, after three tries") {
  CoreHarness harness;
  TrainOneSplit(harness);
  harness.round_status = absl::ResourceExhaustedError("/job/checkpoints: no space left");
  Scale(harness, 1);
  harness.Run(10'000);
  CHECK(MoveOf(harness).at("phase") == "given up");
  harness.round_status = absl::OkStatus();
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("a job that runs somewhere else than it was told to can be told otherwise again") {
  CoreHarness harness;
  TrainOneSplit(harness);
  Scale(harness, 1);
  FoundInDir found = After(harness);
  found.manifests = {harness.committed.back()};
  found.job_state->layout->given = {"unix:/elsewhere"};
  CoreHarness next({}, found, &harness);
  CHECK(next.core->View().ps.size() == 2);
  CHECK_FALSE(ParseJobState(next.job_state, "job.state")->layout.has_value());
}

TEST_CASE("a ps that cannot come in is waited for, while training goes on, and then given up") {
  CoreHarness harness([](Job& job) { job.timeouts.start_s = 3; });
  const uint64_t session = TrainOneSplit(harness);
  Scale(harness, 1);
  const uint64_t again = harness.Join("worker:0");
  CHECK(again != session);
  std::string why;
  SECTION("nobody answers") {
    harness.dead = {1};
    why = "no connection";
  }
  SECTION("it holds what another job, or an earlier layout, has left there") {
    why = "it holds partitions of run run already: restart it";
  }
  Scale(harness, 2);
  REQUIRE(harness.scaled.ok());
  CHECK(MoveOf(harness).at("phase") == "looking at the new ps");
  CHECK_THAT(MoveOf(harness).at("problem").get<std::string>(), Catch::Contains(why));
  CHECK_FALSE(harness.Work(again).has_rejoin());
  harness.Run(4000);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(MoveOf(harness).at("problem").get<std::string>(), Catch::Contains(why));
  CHECK_FALSE(harness.Work(again).has_rejoin());
}

TEST_CASE("a ps that will never come in is given up at once") {
  CoreHarness harness;
  TrainOneSplit(harness);
  Scale(harness, 1);
  const uint64_t session = harness.Join("worker:0");
  RestartSecondPs(harness);
  std::string why;
  int64_t wait_ms = 0;
  SECTION("it is another task") {
    harness.ps[1].set_ps(7);
    why = "ps:1 at unix:/ps-1: it is ps:7, not ps:1";
  }
  SECTION("it speaks another protocol") {
    harness.ps[1].set_protocol(kProtocol + 1);
    why = "it speaks protocol";
  }
  SECTION("it holds another job") {
    harness.ps[1].set_run_id("another");
    why = "it holds run another, not this job's run";
  }
  SECTION("it has another directory, which shared storage does not explain after a while") {
    harness.other_dir = "/elsewhere";
    why = "its --dir, /elsewhere, holds no generation-";
    wait_ms = 7000;
  }
  const std::string layout = harness.job_state;
  Scale(harness, 2);
  harness.Run(wait_ms);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(MoveOf(harness).at("problem").get<std::string>(), Catch::Contains(why));
  CHECK_FALSE(harness.Work(session).has_rejoin());
  CHECK(harness.job_state == layout);
}

TEST_CASE("a job whose layout is durable moves back when a ps of it does not come") {
  CoreHarness harness;
  TrainOneSplit(harness);
  Scale(harness, 1);
  RestartSecondPs(harness);
  harness.hold_state = true;
  Scale(harness, 2);
  REQUIRE(MoveOf(harness).at("phase") == "writing the layout");
  harness.dead = {1};
  harness.hold_state = false;
  harness.Feed(JobStateWrittenEvent{absl::OkStatus()});
  harness.Run(2000);
  REQUIRE(MoveOf(harness).at("phase") == "loading");
  const nlohmann::json status = JsonOf(harness.Told().StatusJson());
  CHECK_THAT(status.at("waiting").get<std::string>(),
             Catch::Contains("the job moves to 2 ps: missing ps:1"));
  SECTION("not to another that is not there") {
    Scale(harness, 2);
    CHECK_THAT(WhyNot(harness), Catch::Contains("missing ps:1 at unix:/ps-1") &&
                                    Catch::Contains("for the ps that are there"));
    return;
  }
  SECTION("and trains on from the closing checkpoint") {}
  SECTION("and waits until that layout is durable, whoever comes meanwhile") {
    harness.hold_state = true;
    const uint64_t generation = harness.core->generation();
    Scale(harness, 1);
    harness.dead.clear();
    harness.Run(3000);
    CHECK(harness.Join("worker:0") == 0);
    CHECK(harness.core->generation() == generation);
    harness.hold_state = false;
    harness.Feed(JobStateWrittenEvent{absl::OkStatus()});
    harness.Run(1000);
  }
  Scale(harness, 1);
  harness.Run(1000);
  CHECK(MoveOf(harness).at("phase") == "done");
  CHECK(ParseJobState(harness.job_state, "job.state")->layout->holders ==
        std::vector<uint32_t>{0, 0, 0, 0});
  CHECK(harness.ps[0].partitions_size() == 4);
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("a move that has not come to its layout is cancelled by the number that the job has") {
  CoreHarness harness;
  TrainOneSplit(harness);
  Scale(harness, 1);
  const std::string layout = harness.job_state;
  RestartSecondPs(harness);
  std::string phase = "looking at the new ps";
  SECTION("while it looks at a ps that does not come") { harness.dead = {1}; }
  SECTION("while it writes the closing checkpoint") {
    harness.hold_commit = true;
    phase = "writing the closing checkpoint";
  }
  Scale(harness, 2);
  REQUIRE(MoveOf(harness).at("phase") == phase);
  Scale(harness, 1, {}, /*dry_run=*/true);
  CHECK(JsonOf(harness.scaled->json()).at("cancels") == "the move to 2 ps");
  CHECK(MoveOf(harness).at("phase") == phase);
  Scale(harness, 1);
  REQUIRE(harness.scaled.ok());
  CHECK(JsonOf(harness.scaled->json()).at("partitions") == 0);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(MoveOf(harness).value("problem", ""), Catch::Contains("cancelled"));
  CHECK(ParseJobState(harness.job_state, "job.state")->layout ==
        ParseJobState(layout, "job.state")->layout);
  if (harness.hold_commit) {
    harness.hold_commit = false;
    harness.Feed(RoundCommittedEvent{harness.core->View().rounds.round().id, absl::OkStatus()});
  }
  harness.Run(1000);
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("a ps that a move was to bring in is told when the job ends meanwhile") {
  CoreHarness harness([](Job& job) { job.epochs = 1; });
  TrainOneSplit(harness);
  Scale(harness, 1);
  const uint64_t session = harness.Join("worker:0");
  RestartSecondPs(harness);
  harness.other_dir = "/elsewhere";  // for a while
  Scale(harness, 2);
  REQUIRE(MoveOf(harness).at("phase") == "looking at the new ps");
  TrainAll(harness, session);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
  CHECK(harness.finished.contains(1));
  CHECK(MoveOf(harness).at("phase") == "looking at the new ps");  // not given up
}

constexpr auto kOftenCheckpoints = [](Job& job) { job.checkpoint.every_seconds = 0.5; };

// A job with a growing table trains on one ps, and the other one waits to be asked for.
void MoveToOnePs(CoreHarness& harness) {
  harness.growing = true;
  TrainOneSplit(harness);
  Scale(harness, 1);
  harness.Run(3000);
  REQUIRE(MoveOf(harness).at("phase") == "done");
  RestartSecondPs(harness);
}

TEST_CASE("checkpoints that fail while a move prepares are tries of it") {
  CoreHarness harness(kOftenCheckpoints);
  MoveToOnePs(harness);
  harness.round_status = absl::ResourceExhaustedError("/job/checkpoints: no space left");
  Scale(harness, 2);
  harness.Run(30'000);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(MoveOf(harness).value("problem", ""), Catch::Contains("no space left"));
}

TEST_CASE("a ps that cannot prepare its partitions is given up, and training goes on") {
  CoreHarness harness(kOftenCheckpoints);
  MoveToOnePs(harness);
  harness.prepare_status = absl::NotFoundError("/job/checkpoints/x/manifest: no such file");
  Scale(harness, 2);
  harness.Run(100'000);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(
      MoveOf(harness).value("problem", ""),
      Catch::Contains("ps:1 cannot prepare its partitions: ") && Catch::Contains("no such file"));
}

TEST_CASE("a synchronous job comes to one state before it moves, and goes on from there") {
  SyncJob job;
  const uint64_t session = job.Join("worker:0");
  job.SetStates(2);
  Scale(job, 1);
  REQUIRE(job.scaled.ok());
  // Both have the same state, which is the cut.
  REQUIRE(job.committed.size() == 1);
  CHECK(job.snapshots.back().cut() == 2);
  CHECK(job.loads.back().partitions_size() == 4);
  CHECK_FALSE(job.loads.back().retain());
  CHECK(job.loads.back().checkpoint() == job.committed[0].name.ToString());
  CHECK(job.Work(session).has_rejoin());
  CHECK(MoveOf(job).at("phase") == "done");
  CHECK(job.Rounds().at("rollbacks") == 0);
}

TEST_CASE("a move that cannot be is refused with the reason, and nothing changes") {
  CoreHarness harness;
  Scale(harness, 1);
  CHECK(WhyNot(harness) == "the job has not begun to train yet");
  TrainOneSplit(harness);
  const uint64_t generation = harness.core->generation();
  Scale(harness, 0);
  CHECK(WhyNot(harness) == "--ps: a job needs one at least");
  Scale(harness, 3);
  CHECK_THAT(WhyNot(harness), Catch::Contains("nobody knows the address of ps:2"));
  Scale(harness, 5, {"unix:/ps-2", "unix:/ps-3", "unix:/ps-4"});
  CHECK_THAT(WhyNot(harness), Catch::Contains("the job has 4 partitions"));
  Scale(harness, 1, {"unix:/ps-2"});
  CHECK_THAT(WhyNot(harness), Catch::Contains("1 are given for 0 ps"));
  Scale(harness, 3, {"unix:/ps-1"});
  CHECK_THAT(WhyNot(harness), Catch::Contains("two ps would be at unix:/ps-1"));
  Scale(harness, 3, {"nowhere"});
  CHECK_THAT(WhyNot(harness), Catch::Contains("--ps-address"));
  Scale(harness, 1, {}, /*dry_run=*/true);
  CHECK(harness.scaled.ok());
  Scale(harness, 2);  // it has 2
  CHECK(JsonOf(harness.scaled->json()).at("same") == true);
  CHECK(MoveOf(harness).is_null());
  CHECK(harness.core->generation() == generation);

  harness.dead = {1};
  harness.Run(20000);
  Scale(harness, 1);
  CHECK_THAT(WhyNot(harness), Catch::Contains("ps:1 at unix:/ps-1 is away, and its partitions move "
                                              "when it is back: start it again, or stop the job"));
}

TEST_CASE("a ps without room for what it would hold is named before anything stops") {
  CoreHarness harness;
  TrainOneSplit(harness);
  for (PsDescription& ps : harness.ps) {
    ps.set_bytes(1000000);
    MemoryHeld& held = *ps.add_memory();
    held.set_holder("variables");
    held.set_bytes_max(1500000);
  }
  harness.Run(2000);  // the ps are looked at again
  Scale(harness, 1);
  CHECK_THAT(WhyNot(harness),
             Catch::Contains("ps:0 at unix:/ps-0 would hold") && Catch::Contains("--memory-limit"));
}

void LimitMemory(PsDescription& ps, uint64_t limit_mib, uint64_t bytes) {
  ps.set_bytes(bytes);
  MemoryHeld& held = *ps.add_memory();
  held.set_holder("variables");
  held.set_bytes_max((limit_mib - 64) << 20);
}

TEST_CASE("a ps is not given partitions that it would refuse to load for want of room for pushes") {
  CoreHarness harness;
  harness.facts_elements = 7 << 20;  // 28 MiB
  TrainOneSplit(harness);
  Scale(harness, 1);
  REQUIRE(MoveOf(harness).at("phase") == "done");
  harness.ps[0].set_bytes(84 << 20);  // two slots
  RestartSecondPs(harness);
  // Variables and slots of half of that, 42 MiB, fit; two pushes of 14 MiB beside them do not.
  LimitMemory(harness.ps[1], 128, 0);
  harness.Run(2000);
  const std::string before = harness.job_state;
  Scale(harness, 2);
  harness.Run(2000);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK_THAT(MoveOf(harness).value("problem", ""),
             Catch::Contains("ps:1 at unix:/ps-1 would hold 42.0 MiB of variables and slots, and "
                             "needs a --memory-limit of at least 134.6 MiB; it has 128.0 MiB"));
  CHECK(harness.job_state == before);
  // With room for the pushes it moves.
  RestartSecondPs(harness);
  harness.ps[1].clear_memory();
  LimitMemory(harness.ps[1], 135, 0);
  Scale(harness, 2);
  harness.Run(2000);
  CHECK(MoveOf(harness).at("phase") == "done");
}

}  // namespace
}  // namespace paracord
