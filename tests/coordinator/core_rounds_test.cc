// Checkpoint rounds, driven by the core.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("a round that fails leaves training alone and is said in the status") {
  CoreHarness harness([](Job& job) { job.checkpoint.every_seconds = 1; });
  const uint64_t session = harness.Join("worker:0");
  harness.round_status = absl::ResourceExhaustedError("no space left");
  harness.Run(1500);
  CHECK(harness.committed.empty());
  CHECK(harness.Told().StatusJson().find("no space left") != std::string::npos);
  CHECK(harness.Work(session).has_lease());
  harness.round_status = absl::OkStatus();
  harness.Run(6000);
  CHECK_FALSE(harness.committed.empty());
}

TEST_CASE("a round whose manifest cannot be written is cleared away under both its names") {
  CoreHarness harness([](Job& job) { job.checkpoint.every_seconds = 1; });
  harness.commit_status = absl::ResourceExhaustedError("no space left");
  const uint64_t session = harness.Join("worker:0");
  harness.Enter(harness.Work(session).lease());
  harness.Run(4500);
  CHECK(harness.removed == std::vector<std::string>{"round-g1-r1"});
  REQUIRE(harness.committed.size() == 3);
  CHECK(harness.uncommitted == std::vector<std::string>{harness.committed[0].name.ToString()});
}

TEST_CASE("a checkpoint that stands although its commit failed counts as one") {
  CoreHarness harness([](Job& job) { job.checkpoint = {.every_seconds = 1, .keep = 1}; });
  harness.commit_status = absl::UnknownError("cannot sync: I/O error");
  const bool stands = GENERATE(true, false), known = GENERATE(true, false);
  harness.stands = known ? absl::StatusOr<bool>(stands) : absl::UnknownError("I/O error");
  const uint64_t session = harness.Join("worker:0");
  harness.Enter(harness.Work(session).lease());
  harness.Run(4500);
  REQUIRE(harness.uncommitted.size() == 1);
  harness.commit_status = absl::OkStatus();
  harness.Run(6000);
  REQUIRE(harness.committed.size() == 4);
  const std::string first = harness.committed[0].name.ToString();
  CHECK(harness.uncommitted == std::vector<std::string>{first});
  CHECK(std::ranges::count(harness.removed, first) == (known && stands));
}

constexpr auto kOftenThree = [](Job& job) {
  job.epochs = 8;
  job.checkpoint = {.every_seconds = 1, .keep = 3};
};

WorkReply ComputeSplit(CoreHarness& harness, uint64_t session, const Lease& lease) {
  harness.Enter(lease);
  return harness.Work(session, {CoreHarness::Done(lease)});
}

TEST_CASE("a checkpoint that holds what the one before holds takes its place") {
  CoreHarness harness(kOftenThree);
  const uint64_t session = harness.Join("worker:0");
  WorkReply work = ComputeSplit(harness, session, harness.Work(session).lease());
  harness.Run(1500);
  REQUIRE(harness.committed.size() == 1);
  LeaseReport nothing_entered;
  nothing_entered.set_lease(work.lease().id());
  harness.Work(session, {nothing_entered}, /*want=*/false);
  harness.Run(1500);
  REQUIRE(harness.committed.size() == 2);
  CHECK(harness.removed == std::vector<std::string>{harness.committed[0].name.ToString()});
  for (int round = 0; round < 2; ++round) {
    work = ComputeSplit(harness, session, work.lease());
    harness.Run(1500);
  }
  CHECK(harness.committed.size() == 4);
  CHECK(harness.removed.size() == 1);
}

TEST_CASE("on a full disk older checkpoints make room one by one, and the newest stays") {
  CoreHarness harness(kOftenThree);
  const uint64_t session = harness.Join("worker:0");
  WorkReply work = harness.Work(session);
  const auto compute = [&] { work = ComputeSplit(harness, session, work.lease()); };
  for (int round = 0; round < 3; ++round) {
    compute();
    harness.Run(1500);
  }
  REQUIRE(harness.committed.size() == 3);
  REQUIRE(harness.removed.empty());
  const auto name = [&](size_t round) { return harness.committed[round].name.ToString(); };
  const auto gone = [&](size_t round) {
    return std::count(harness.removed.begin(), harness.removed.end(), name(round)) == 1;
  };
  harness.round_status = absl::ResourceExhaustedError("/job/ps-0: Too many open files");
  compute();
  harness.Run(1500);
  CHECK_FALSE(gone(0));
  harness.round_status = absl::ResourceExhaustedError("/job/ps-0: No space left on device");
  harness.Run(6000);
  CHECK((gone(0) && !gone(1)));
  harness.Run(30000);
  CHECK((gone(1) && !gone(2)));
}

TEST_CASE("a job.state that cannot be written is said, and no longer once it is") {
  CoreHarness harness;
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  harness.state_status = absl::ResourceExhaustedError("no space left");
  CHECK(harness.Join("worker:0") == 0);
  CHECK(status().at("checkpoint").at("problem") == "no space left");
  CHECK(status().at("waiting") == "job.state cannot be written: no space left");
  harness.state_status = absl::OkStatus();
  harness.Run(1500);
  CHECK(status().at("checkpoint").at("problem") == "");
  CHECK(harness.Join("worker:0") != 0);
}

TEST_CASE("the last checkpoint of a job may take as long as a ps may take to load it") {
  CoreHarness harness;
  harness.snapshot_takes_ms = 50 * 60 * 1000;
  TrainAll(harness, harness.Join("worker:0"));
  harness.Run(10000);
  REQUIRE_FALSE(harness.committed.empty());
  CHECK(harness.committed.back().complete);
}

}  // namespace
}  // namespace paracord
