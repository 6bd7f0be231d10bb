// Second holders in synchronous training: they take part in every round, and go on without a load
// when a ps is lost.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/sync_job.h"

namespace paracord {
namespace {

using HolderList = std::vector<uint32_t>;

constexpr auto kHot = [](Job& job) {
  job.partitioner.copies = 1;
  job.checkpoint.every_seconds = 5;
};

nlohmann::json HotCopies(const CoreHarness& harness) {
  return JsonOf(harness.Told().StatusJson()).value("copies", nlohmann::json());
}

Layout HotLayout(const CoreHarness& harness) {
  return ParseJobState(harness.job_state, "job.state")->layout.value();
}

// All holders come to a state behind the newest cut, which is returned.
uint64_t TrainOn(SyncJob& job) {
  const uint64_t state = job.snapshots.back().cut() + 1;
  job.SetStates(state);
  return state;
}

// The connection to a ps breaks, and nobody takes another one.
void LoseHolder(SyncJob& job, uint32_t at) {
  job.dead.insert(at);
  job.Feed(PsAnswerEvent{at, job.hold_tags[at], absl::UnavailableError("connection lost")});
}

FoundInDir FoundAfterHot(const SyncJob& earlier) {
  FoundInDir found = After(earlier);
  found.manifests.assign(earlier.committed.rbegin(), earlier.committed.rend());
  return found;
}

TEST_CASE("both ps of a partition create it, and a session names both") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  REQUIRE(job.loads.size() == 2);
  for (const LoadRequest& load : job.loads) {
    CHECK(load.partitions_size() == 4);
    CHECK(load.checkpoint().empty());
    CHECK(load.keeps_before());
  }
  const Layout layout = HotLayout(job);
  for (size_t p = 0; p < 4; ++p) CHECK(layout.seconds[p] == 1 - layout.holders[p]);
  const Session& session = job.joins[job.call].session();
  REQUIRE(session.ps_size() == 2);
  for (const PartitionSpec& partition : session.partitions()) {
    REQUIRE(partition.copies_size() == 1);
    CHECK(partition.copies(0) == 1 - partition.ps());
  }
  CHECK(HotCopies(job).at("with_both") == 4);
  CHECK(HotCopies(job).at("bytes_with_one") == 0);
}

TEST_CASE("the layout with second holders is durable before anybody creates partitions") {
  SyncJob job(kHot);
  job.hold_state = true;
  CHECK(job.Join("worker:0") == 0);
  job.Feed(JobStateWrittenEvent{absl::OkStatus()});  // the job is fixed
  job.Run(2000);
  CHECK(HotLayout(job).seconds.size() == 4);
  CHECK(job.loads.empty());
  job.hold_state = false;
  job.Feed(JobStateWrittenEvent{absl::OkStatus()});
  job.Run(500);
  CHECK(job.loads.size() == 2);
}

TEST_CASE("when a ps is lost the others go on from the state they have, and load nothing") {
  SyncJob job(kHot);
  const uint64_t session = job.Join("worker:0");
  job.TakeCut(session, 1);
  const uint64_t state = TrainOn(job);
  const uint64_t generation = job.core->generation();
  const size_t loads = job.loads.size();
  LoseHolder(job, 1);
  job.Run(500);
  CHECK(job.core->generation() == generation + 1);
  CHECK(job.loads.size() == loads);
  CHECK(HotLayout(job).holders == HolderList{0, 0, 0, 0});
  CHECK(HotLayout(job).seconds == HolderList(4, kNobody));
  CHECK(job.Work(session).has_rejoin());
  REQUIRE(job.Work(job.Join("worker:0")).has_lease());
  CHECK(job.Rounds().at("round") == state);
  const Session& joined = job.joins.rbegin()->second.session();
  REQUIRE(joined.ps_size() == 1);
  for (const PartitionSpec& partition : joined.partitions()) {
    CHECK(partition.ps() == 0);
    CHECK(partition.copies_size() == 0);
  }
  CHECK(job.Rounds().at("rollbacks") == 0);
  CHECK(HotCopies(job).at("promotions") == 1);
  CHECK(HotCopies(job).at("bytes_with_one") == 800000);
}

TEST_CASE("a round that one holder lacks is computed again, and the other one serves it") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  job.SetState(0, 3, /*serves_before=*/true);
  job.SetState(1, 2);
  const size_t loads = job.loads.size();
  // The connection to the coordinator breaks for a moment.
  job.Feed(PsAnswerEvent{1, job.hold_tags[1], absl::UnavailableError("lost")});
  job.Run(1000);
  CHECK(job.loads.size() == loads);
  CHECK(HotCopies(job).at("with_both") == 4);
  CHECK(job.Rounds().at("state_min") == 2);
  CHECK(job.Rounds().at("state_max") == 3);
}

TEST_CASE("a holder that is behind by more leaves, and drops what it has") {
  SyncJob job(kHot);
  const uint64_t session = job.Join("worker:0");
  job.TakeCut(session, 1);
  const uint64_t state = TrainOn(job);
  job.SetState(1, state - 1);
  job.loads.clear();
  LoseHolder(job, 1);
  job.dead.clear();
  job.Run(200);
  CHECK(HotLayout(job).holders == HolderList{0, 0, 0, 0});
  job.Run(2000);
  REQUIRE(job.loads.size() == 1);
  CHECK(job.loads[0].partitions_size() == 0);
  CHECK(job.Rounds().at("rollbacks") == 0);
  CHECK(job.Rounds().at("state_min") == state);
}

TEST_CASE("what leaves the layout is written before training goes on") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  job.SetStates(3);
  const std::string before = job.job_state;
  SECTION("while it is written nobody joins") {
    job.hold_state = true;
    LoseHolder(job, 1);
    job.dead.clear();
    job.Run(3000);
    CHECK(job.Join("worker:1") == 0);
  }
  SECTION("a write that fails is made again") {
    job.state_status = absl::ResourceExhaustedError("/job: no space left");
    LoseHolder(job, 1);
    job.Run(3000);
    CHECK(job.Join("worker:1") == 0);
    job.state_status = absl::OkStatus();
    job.Run(3000);
    CHECK(job.Join("worker:1") != 0);
    CHECK(job.loads.size() == 2);
  }
  SECTION("a coordinator that dies after the write leaves its successor the new layout") {
    job.hold_state = true;
    LoseHolder(job, 1);
    job.Run(500);
    SyncJob next(kHot, FoundAfterHot(job), &job);
    CHECK(HotLayout(next).holders == HolderList{0, 0, 0, 0});
    CHECK(next.Rounds().at("state_min") == 3);
    REQUIRE(next.Join("worker:0") != 0);
    // The other one, which is there, drops what it has.
    for (const LoadRequest& load : next.loads) CHECK(load.partitions_size() == 0);
  }
  SECTION("a coordinator that dies before it leaves its successor the old one") {
    FoundInDir found = FoundAfterHot(job);
    found.job_state = ParseJobState(before, "job.state").value();
    SyncJob next(kHot, std::move(found), &job);
    CHECK(next.loads.empty());
    CHECK(HotLayout(next).seconds != HolderList(4, kNobody));
    CHECK(next.Join("worker:0") != 0);
  }
}

TEST_CASE("a partition both of whose ps are lost takes all back to the newest checkpoint") {
  SyncJob job(kHot);
  const std::string cut = job.TakeCut(job.Join("worker:0"), 1);
  TrainOn(job);
  job.loads.clear();
  job.dead = {0, 1};  // ps:1 is thought to be there until it is lost, too
  LoseHolder(job, 0);
  LoseHolder(job, 1);
  job.Run(3000);
  CHECK(job.loads.empty());
  CHECK_FALSE(job.exit.has_value());
  for (PsDescription& ps : job.ps) {
    ps.set_boot_id(ps.boot_id() + "-again");
    ps.clear_run_id();
    ps.clear_partitions();
  }
  job.dead.clear();
  job.Run(1000);
  REQUIRE(job.loads.size() == 2);
  for (const LoadRequest& load : job.loads) {
    CHECK(load.checkpoint() == cut);
    CHECK(load.partitions_size() == 4);
  }
  CHECK(job.Rounds().at("rollbacks") == 1);
  CHECK(HotCopies(job).at("with_both") == 4);
}

TEST_CASE("a ps that has nothing loads the newest checkpoint when the other one stays away") {
  SyncJob job([](Job& said) {
    kHot(said);
    said.timeouts.ps_return_s = 5;
  });
  const std::string cut = job.TakeCut(job.Join("worker:0"), 1);
  TrainOn(job);
  job.loads.clear();
  job.dead = {0, 1};
  LoseHolder(job, 0);
  job.dead = {0};
  job.Kill(1);
  job.Run(3000);
  CHECK(job.loads.empty());
  job.Run(3000);
  CHECK_FALSE(job.exit.has_value());
  REQUIRE(job.loads.size() == 1);
  CHECK(job.loads[0].checkpoint() == cut);
  CHECK(job.loads[0].partitions_size() == 4);
  CHECK(HotLayout(job).holders == HolderList{1, 1, 1, 1});
}

TEST_CASE("what a ps had before the newest checkpoint is not gone on from") {
  SyncJob job(kHot);
  const std::string cut = job.TakeCut(job.Join("worker:0"), 3);
  // Who had more is lost with all that it held.
  job.SetState(1, 2);
  job.loads.clear();
  LoseHolder(job, 0);
  job.Run(1000);
  REQUIRE_FALSE(job.loads.empty());
  CHECK(job.loads.back().checkpoint() == cut);
  CHECK(job.loads.back().partitions_size() == 4);
  CHECK(job.Rounds().at("rollbacks") == 1);
  CHECK(job.Work(job.Join("worker:0")).lease().first_batch() == 3);
}

TEST_CASE("a ps writes those partitions alone whose first holder it is") {
  SyncJob job(kHot);
  job.TakeCut(job.Join("worker:0"), 1);
  const Layout layout = HotLayout(job);
  REQUIRE(job.snapshots.size() == 2);
  for (const SnapshotRequest& order : job.snapshots) {
    CHECK(order.only_size() == 2);
    for (const uint32_t id : order.only()) CHECK(layout.holders[id] == order.ps());
  }
  const Manifest& manifest = job.committed.back();
  CHECK(manifest.files.size() == 2);
  for (const ManifestPartition& partition : manifest.partitions) {
    CHECK(partition.spec.ps() == layout.holders[partition.spec.id()]);
    CHECK(partition.spec.copies_size() == 0);
  }
  // The one that is left writes all of them, into one file.
  job.SetStates(2);
  LoseHolder(job, 1);
  job.Run(500);
  job.snapshots.clear();
  job.Feed(DrainEvent());
  job.Run(2000);
  REQUIRE(job.snapshots.size() == 1);
  CHECK(job.snapshots[0].only_size() == 0);
  CHECK(job.committed.back().files.size() == 1);
}

TEST_CASE("a ps that is back gets copies at a cut, which it alone loads") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  job.SetStates(2);
  job.loads.clear();
  job.Kill(1);
  const uint64_t session = job.Join("worker:0");
  REQUIRE(session != 0);
  CHECK(HotLayout(job).seconds == HolderList(4, kNobody));
  job.Run(3000);
  REQUIRE(job.loads.size() == 1);  // it drops what it may have
  CHECK(job.loads[0].partitions_size() == 0);
  job.Run(5000);
  REQUIRE(job.loads.size() == 2);
  CHECK(job.called_load.rbegin()->second == 1);
  CHECK(job.loads[1].partitions_size() == 4);
  CHECK(job.loads[1].checkpoint() == job.committed.back().name.ToString());
  CHECK(job.Work(session).has_rejoin());
  CHECK(HotLayout(job).holders == HolderList{0, 0, 0, 0});
  CHECK(HotCopies(job).at("with_both") == 4);
  CHECK(job.Rounds().at("rollbacks") == 0);
  const nlohmann::json move = JsonOf(job.Told().StatusJson()).at("move");
  CHECK(move.at("phase") == "done");
  CHECK(move.at("copies") == true);
  // Then the other one may be lost.
  job.SetState(1, 2);
  LoseHolder(job, 0);
  job.Run(500);
  CHECK(HotLayout(job).holders == HolderList{1, 1, 1, 1});
  CHECK(job.loads.size() == 2);
}

TEST_CASE("a coordinator that dies after copies are written leaves holders that have none yet") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  job.SetStates(2);
  job.Kill(1);
  job.Run(3000);
  job.silent_load = true;
  job.Run(5000);
  CHECK(HotLayout(job).seconds == HolderList(4, 1));
  SyncJob next(kHot, FoundAfterHot(job), &job);
  // The layout says that ps:1 has all, and it has nothing: it is no holder, and training goes on.
  CHECK(HotLayout(next).seconds == HolderList(4, kNobody));
  CHECK(next.Join("worker:0") != 0);
  CHECK(next.Rounds().at("state_min") == 2);
  CHECK(next.Rounds().at("rollbacks") == 0);
}

TEST_CASE("copies that nobody can be given are tried again later, and training goes on") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  job.SetStates(2);
  job.Kill(1);
  job.round_status = absl::ResourceExhaustedError("/job: no space left");
  job.Run(30'000);
  const nlohmann::json move = JsonOf(job.Told().StatusJson()).at("move");
  CHECK(move.at("phase") == "given up");
  CHECK(job.Join("worker:0") != 0);
  job.round_status = absl::OkStatus();
  job.Run(40'000);
  CHECK(HotCopies(job).at("with_both") == 4);
}

TEST_CASE("a synchronous job with copies moves, and both holders of a partition load") {
  SyncJob job(kHot);
  REQUIRE(job.Join("worker:0") != 0);
  job.SetStates(2);
  LoseHolder(job, 1);
  job.Run(500);
  job.dead.clear();
  job.Run(3000);
  job.loads.clear();
  ScaleRequest request;
  request.set_ps(1);
  job.Feed(ScaleEvent{++job.call, request});
  CHECK_THAT(std::string(job.scaled.status().message()), Catch::Contains("give at least 2"));
  request.set_ps(2);
  job.Feed(ScaleEvent{++job.call, request});
  REQUIRE(job.scaled.ok());
  job.Run(1000);
  CHECK(JsonOf(job.Told().StatusJson()).at("move").at("phase") == "done");
  REQUIRE(job.loads.size() == 2);
  for (const LoadRequest& load : job.loads) CHECK(load.partitions_size() == 4);
  const Layout layout = HotLayout(job);
  CHECK(std::ranges::count(layout.holders, 0u) == 2);
  for (size_t p = 0; p < 4; ++p) CHECK(layout.seconds[p] == 1 - layout.holders[p]);
}

}  // namespace
}  // namespace paracord
