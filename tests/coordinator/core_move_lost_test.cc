// A ps of the new layout is lost before the layout is written: it is noticed, and nothing has
// moved.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "coordinator/move_job.h"
#include "coordinator/sync_job.h"

namespace paracord {
namespace {

TEST_CASE("a new ps that is lost before the layout is written is waited for, with the old one") {
  const bool sync = GENERATE(false, true);
  CAPTURE(sync);
  SyncJob sync_job;
  CoreHarness async_job;
  CoreHarness& harness = sync ? sync_job : async_job;
  const uint64_t records = sync ? kSyncRecords : 40;
  if (sync) {
    sync_job.loaded = [&](uint32_t at, const std::string&) { sync_job.SetState(at, 2); };
    harness.Join("worker:0", records);
    sync_job.SetStates(2);
  } else {
    TrainOneSplit(harness);
  }
  Scale(harness, 1);
  REQUIRE(MoveOf(harness).at("phase") == "done");
  RestartSecondPs(harness);
  const uint64_t version = ParseJobState(harness.job_state, "job.state")->layout->version;
  harness.hold_commit = true;  // the closing checkpoint takes a while
  Scale(harness, 2);
  REQUIRE(MoveOf(harness).at("phase") == "writing the closing checkpoint");
  harness.dead = {1};
  SECTION("which is noticed while the closing checkpoint is written") { harness.Run(2500); }
  SECTION("which is noticed when it has been written") { harness.Run(1500); }
  CHECK(MoveOf(harness).at("phase") == "looking at the new ps");
  harness.hold_commit = false;
  harness.Feed(RoundCommittedEvent{harness.core->View().rounds.round().id, absl::OkStatus()});
  harness.Run(2000);
  CHECK(ParseJobState(harness.job_state, "job.state")->layout->version == version);
  CHECK(MoveOf(harness).at("phase") == "looking at the new ps");
  CHECK(harness.Join("worker:0", records) != 0);  // training goes on
  harness.dead.clear();
  harness.Run(3000);
  CHECK(MoveOf(harness).at("phase") == "done");
  CHECK(ParseJobState(harness.job_state, "job.state")->layout->version == version + 1);
}

// A job that has moved to ps:0 is to move to both again, and its closing checkpoint is being
// committed. Returns the version of the layout that it has.
uint64_t MoveUpToClosing(CoreHarness& harness) {
  TrainOneSplit(harness);
  Scale(harness, 1);
  RestartSecondPs(harness);
  harness.hold_commit = true;
  Scale(harness, 2);
  return ParseJobState(harness.job_state, "job.state")->layout->version;
}

TEST_CASE("a ps that is lost just before the layout is written does not get it") {
  CoreHarness harness;
  const uint64_t version = MoveUpToClosing(harness);
  REQUIRE(MoveOf(harness).at("phase") == "writing the closing checkpoint");
  harness.hold_commit = false;
  // Nobody has called the ps between its end and the commit.
  uint32_t lost = 1;
  SECTION("the new ps is killed") { harness.dead = {1}; }
  SECTION("the new ps is started again") { RestartSecondPs(harness); }
  SECTION("the ps that stays is killed") { harness.dead = {lost = 0}; }
  const uint64_t round = harness.core->View().rounds.round().id;
  harness.Feed(RoundCommittedEvent{round, absl::OkStatus()});
  CHECK_THAT(harness.log, Catch::Contains(absl::StrCat("the move to 2 ps is tried again: ps:", lost,
                                                       " at unix:/ps-", lost, " is lost: ")));
  // One that was started again has come in at once, and has another closing checkpoint.
  CHECK(harness.committed.size() == (harness.dead.empty() ? 3 : 2));
  if (!harness.dead.empty()) {
    CHECK(MoveOf(harness).at("phase") == "looking at the new ps");
    CHECK(ParseJobState(harness.job_state, "job.state")->layout->version == version);
  }
  if (harness.dead.contains(1)) {
    harness.Run(1000);
    CHECK(harness.Join("worker:0") != 0);  // training goes on
  }
  harness.dead.clear();
  harness.Run(3000);
  CHECK(MoveOf(harness).at("phase") == "done");
  CHECK(ParseJobState(harness.job_state, "job.state")->layout->version == version + 1);
  TrainAll(harness, harness.Join("worker:0"));
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

TEST_CASE("no layout is written before all of its ps have answered once more") {
  CoreHarness harness;
  const uint64_t version = MoveUpToClosing(harness);
  harness.hold_commit = false;
  harness.hung = {GENERATE(0u, 1u)};
  const size_t commits = harness.committed.size();
  const uint64_t round = harness.core->View().rounds.round().id;
  harness.Feed(RoundCommittedEvent{round, absl::OkStatus()});
  harness.Run(500);
  CHECK(MoveOf(harness).at("phase") == "asking the ps of the new layout");
  CHECK(ParseJobState(harness.job_state, "job.state")->layout->version == version);
  CHECK(harness.committed.size() == commits);
  CHECK(harness.Join("worker:0") == 0);
  // Who asks for the present number meanwhile cancels the move.
  Scale(harness, 1);
  CHECK(MoveOf(harness).at("phase") == "given up");
  CHECK(ParseJobState(harness.job_state, "job.state")->layout->version == version);
}

}  // namespace
}  // namespace paracord
