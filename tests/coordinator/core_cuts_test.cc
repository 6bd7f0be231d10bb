// Checkpoints of synchronous jobs are cuts: the state that the coordinator orders, and the state at
// which a job ends.
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "coordinator/core_harness.h"

namespace paracord {
namespace {

constexpr uint64_t kRecords = 4000;  // an epoch of 200 rounds of two lanes
constexpr uint64_t kRounds = 200;

class CutJob : public CoreHarness {
 public:
  explicit CutJob(std::function<void(Job&)> edit = {})
      : CoreHarness([&](Job& said) {
          said.split_batches.reset();
          said.guarantees.consistency = "sync";
          said.guarantees.recovery = "rollback";
          said.guarantees.round_batches = 2;
          if (edit) edit(said);
        }) {
    session = Join("worker:0", kRecords);
    REQUIRE(session != 0);
  }
  // Brings the partitions of a ps to each state up to `state`.
  void Reach(uint32_t index, uint64_t state) {
    for (uint64_t at = ps[index].partitions(0).state() + 1; at <= state; ++at) {
      if (std::optional<Event> answer = FakePs::Reach(index, at, kRounds)) Feed(*answer);
    }
  }
  void Reach(uint64_t state) {
    Reach(0, state);
    Reach(1, state);
  }
  // Reports computed batches, so that a checkpoint becomes due.
  void Compute() { Work(session, {LeaseReport()}, /*want=*/false); }
  std::vector<uint64_t> Cuts() const {
    std::vector<uint64_t> cuts;
    for (const SnapshotRequest& order : snapshots) {
      if (order.ps() == 0) cuts.push_back(order.cut());
    }
    return cuts;
  }
  void EndLeases(const WorkReply& had, uint32_t next) {
    std::vector<LeaseReport> reports;
    const auto end = [&](const Lease& lease) {
      LeaseReport& report = reports.emplace_back();
      report.set_lease(lease.id());
      report.set_next(next);
      report.set_ended(true);
    };
    if (had.has_lease()) end(had.lease());
    for (const Lease& lease : had.lanes()) end(lease);
    Work(session, reports, /*want=*/false);
  }

  uint64_t session = 0;
};

constexpr auto kEachSecond = [](Job& job) { job.checkpoint.every_seconds = 1; };

TEST_CASE("a cut is ordered ahead of all partitions, and committed when all have come to it") {
  CutJob job(kEachSecond);
  job.Reach(5);
  job.Compute();
  job.Run(2500);
  REQUIRE(job.snapshots.size() == 2);
  const uint64_t cut = job.snapshots[0].cut();
  CHECK(job.snapshots[1].cut() == cut);
  CHECK(cut >= 7);
  CHECK(cut <= 10);
  job.Reach(0, cut + 1);
  job.Reach(1, cut - 1);
  CHECK(job.committed.empty());
  job.Reach(1, cut);
  REQUIRE(job.committed.size() == 1);
  for (const ManifestPartition& partition : job.committed[0].partitions) {
    CHECK(partition.applied == cut * 2);
  }
}

TEST_CASE("a cut that a ps is past is ordered twice as far ahead, at once") {
  CutJob job(kEachSecond);
  job.Reach(5);
  job.Compute();
  job.late_orders = 3;
  job.Run(2500);
  const std::vector<uint64_t> cuts = job.Cuts();
  REQUIRE(cuts.size() == 4);
  for (size_t i = 1; i < cuts.size(); ++i) CHECK(cuts[i] - 5 == 2 * (cuts[i - 1] - 5));
  CHECK(job.log.find("is ordered anew") != std::string::npos);
  CHECK(job.log.find("failed") == std::string::npos);
  CHECK(job.removed.size() == 3);
  job.Reach(cuts.back());
  CHECK(job.committed.size() == 1);
}

TEST_CASE("a drain takes the state that the ps tell, and voids a cut further ahead") {
  CutJob job(kEachSecond);
  job.Reach(5);
  job.Compute();
  job.Run(2500);
  REQUIRE(job.Cuts().size() == 1);
  CHECK(job.Cuts()[0] > 5);
  job.Feed(DrainEvent{"SIGTERM"});
  CHECK(job.Cuts().size() == 2);
  CHECK(job.Cuts().back() == 5);
  REQUIRE(job.committed.size() == 1);
  REQUIRE(job.exit.has_value());
  CHECK(job.exit->code == static_cast<int>(ExitCode::kDrained));
}

TEST_CASE("at a drain lanes are leased up to the cut, so that all partitions come to it") {
  CutJob job;
  const WorkReply had = job.Work(job.session);
  REQUIRE(had.has_lease());
  job.Reach(0, 6);
  job.Reach(1, 5);
  job.EndLeases(had, 1);
  job.Feed(DrainEvent{"SIGTERM"});
  REQUIRE(job.Cuts().size() == 1);
  CHECK(job.Cuts()[0] == 6);
  CHECK(job.committed.empty());
  const WorkReply lanes = job.Work(job.session);
  REQUIRE(lanes.has_lease());
  CHECK(lanes.lease().first_batch() == 5);
  CHECK(lanes.lease().end_batch() == 6);
  REQUIRE(lanes.lanes_size() == 1);
  CHECK(lanes.lanes(0).end_batch() == 6);
  job.EndLeases(lanes, 6);
  CHECK_FALSE(job.Work(job.session).has_lease());  // no lease goes beyond the cut
  job.Reach(1, 6);
  CHECK(job.committed.size() == 1);
  CHECK(job.exit.has_value());
}

TEST_CASE("at a drain leases at hand are not moved on, and a cut that they are past is repeated") {
  CutJob job;
  const WorkReply had = job.Work(job.session);
  job.Reach(5);
  job.hold_ledgers = true;
  job.Feed(DrainEvent{"SIGTERM"});
  CHECK(job.Cuts().empty());
  job.Reach(1, 7);  // the leases at hand go on after the ps have reported their states
  job.ReleaseLedgers();
  CHECK(job.Work(job.session, {}, /*want=*/false).lanes_size() == 0);
  CHECK(job.Cuts().size() == 1);  // the leases end soon
  job.Run(300);
  REQUIRE(job.Cuts().size() == 2);
  CHECK(job.Cuts()[0] == 5);
  CHECK(job.Cuts()[1] == 7);
  job.Reach(0, 7);
  CHECK(job.committed.size() == 1);
}

void ScaleToOne(CutJob& job) {
  ScaleRequest request;
  request.set_ps(1);
  job.Feed(ScaleEvent{++job.call, request});
  REQUIRE(job.scaled.ok());
  job.Run(200);
}

TEST_CASE("for a move the cut is where the leases at hand end, beyond which nobody computes") {
  CutJob job;
  const WorkReply had = job.Work(job.session);
  REQUIRE(had.has_lease());
  const uint32_t end = had.lease().end_batch();
  REQUIRE(end == 2);
  job.Reach(1);
  ScaleToOne(job);
  REQUIRE(job.Cuts() == std::vector<uint64_t>{end});
  CHECK(job.committed.empty());
  // Lanes that became free before are leased up to the cut, and no further.
  job.EndLeases(had, 1);
  const WorkReply again = job.Work(job.session);
  REQUIRE(again.has_lease());
  CHECK(again.lease().first_batch() == 1);
  CHECK(again.lease().end_batch() == end);
  job.EndLeases(again, end);
  CHECK_FALSE(job.Work(job.session).has_lease());
  job.Reach(end);
  REQUIRE(job.committed.size() == 1);
  CHECK(job.committed[0].partitions[0].applied == 2 * end);
  job.Run(500);
  CHECK(job.finished == std::set<uint32_t>{1});
}

TEST_CASE("a checkpoint ordered ahead of where a move stops is not the closing one") {
  CutJob job(kEachSecond);
  job.Work(job.session);
  job.Compute();
  job.Run(2500);
  const uint64_t ahead = job.Cuts().back();
  REQUIRE(ahead > 2);
  ScaleToOne(job);
  CHECK(job.Cuts() == std::vector<uint64_t>{ahead, 2});
}

TEST_CASE("a job that ends while it stops for a move has its cut at the state that the ps tell") {
  CutJob job;
  job.Work(job.session);
  job.Reach(1);
  ScaleToOne(job);
  REQUIRE(job.Cuts() == std::vector<uint64_t>{2});
  job.Feed(DrainEvent{"SIGTERM"});
  CHECK(job.Cuts() == std::vector<uint64_t>{2, 1});
  CHECK(job.committed.size() == 1);
  CHECK(job.exit.has_value());
}

TEST_CASE("where nothing trains a cut is the state itself") {
  CutJob job;
  job.Reach(2 * kRounds);
  job.Run(6000);
  if (job.committed.empty()) {
    LeaseReport gap;
    const WorkReply had = job.Work(job.session);
    REQUIRE(had.has_lease());
    gap.set_lease(had.lease().id());
    gap.set_ended(true);
    gap.set_problem(PROBLEM_GAP);
    job.Work(job.session, {gap}, /*want=*/false);
    job.Run(2000);
  }
  REQUIRE_FALSE(job.committed.empty());
  CHECK(job.committed.back().complete);
  CHECK(job.Cuts().back() == 2 * kRounds);
}

TEST_CASE("a ps that leaves gets a cut of the state that the ps have") {
  CutJob job([](Job& said) { said.checkpoint.every_seconds = 100; });
  job.Reach(5);
  PsHoldReply leaving;
  leaving.set_draining(true);
  job.Feed(PsAnswerEvent{0, job.hold_tags[0], PsReply(leaving)});
  job.Run(200);
  REQUIRE(job.committed.size() == 1);
  CHECK(job.Cuts() == std::vector<uint64_t>{5});
  CHECK(job.finished == std::set<uint32_t>{0});
}

TEST_CASE("a snapshot of another state than the cut fails the round") {
  CutJob job;
  job.Reach(5);
  job.Feed(DrainEvent{"SIGTERM"});
  CHECK(job.exit.has_value());
  CutJob other;
  other.Reach(0, 6);
  other.Reach(1, 5);
  other.Feed(DrainEvent{"SIGTERM"});
  REQUIRE(other.armed.contains(1));
  const CallPs order = other.armed.at(1);
  SnapshotReply reply;
  *reply.mutable_partitions() = other.ps[1].partitions();
  other.Feed(PsAnswerEvent{1, order.tag, PsReply(reply)});
  CHECK(other.committed.empty());
  CHECK(other.log.find("at state 5, and the cut is at 6") != std::string::npos);
}

}  // namespace
}  // namespace paracord
