// Workers get lanes according to their time for a batch, and a late lane gets a second worker.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>

#include "common/json_text.h"
#include "coordinator/lane_job.h"

namespace paracord {
namespace {

TEST_CASE("a worker that takes four times as long for a batch has a quarter of the lanes") {
  LaneJob job(/*lanes=*/4, /*records=*/400000);
  LaneWorker fast(job, "worker:0"), slow(job, "worker:1");
  fast.batch_seconds = slow.batch_seconds = 0.05;
  Steps(job, {&fast, &slow}, 120);
  CHECK(fast.lanes() == LaneSet{0, 1});
  CHECK(slow.lanes() == LaneSet{2, 3});
  slow.batch_seconds = 0.2;
  for (int round = 0; round < 40; ++round) {  // some 10 s, in which leases end
    const size_t fast_lanes = fast.lanes().size(), slow_lanes = slow.lanes().size();
    for (size_t step = 0; step < std::max(fast_lanes, 4 * slow_lanes); ++step) {
      job.Run(50);
      step < fast_lanes ? fast.Step() : fast.Wait();
      step % 4 == 3 ? slow.Step() : slow.Wait();
    }
  }
  CHECK(fast.lanes() == LaneSet{0, 1, 2});
  CHECK(slow.lanes() == LaneSet{3});
  // A lane moves only when a lease ends, so no batch is computed twice.
  CHECK(fast.computed + slow.computed == job.table().batches_done());
  const nlohmann::json status = JsonOf(job.Told().StatusJson());
  CHECK(status.at("rounds").at("waited_seconds").get<double>() > 1);
  CHECK(status.at("workers")[1].at("waited_share").get<double>() > 0.1);
}

TEST_CASE("a worker that stands by keeps the time that it took for a batch") {
  LaneJob job(/*lanes=*/2, /*records=*/400000);
  LaneWorker first(job, "worker:0"), second(job, "worker:1");
  first.batch_seconds = 0.05;
  second.batch_seconds = 0.25;  // two lanes of `first` take less time than one of `second`
  for (int step = 0; step < 400; ++step) {
    Steps(job, {&first}, 1);
    step % 5 == 4 ? second.Step() : second.Wait();
  }
  CHECK(first.lanes() == LaneSet{0, 1});
  CHECK(second.lanes().empty());
  const uint64_t computed = second.computed;
  Steps(job, {&first, &second}, 200);
  CHECK(second.lanes().empty());
  CHECK(second.computed == computed);
}

constexpr auto kBackup = [](Job& said) {
  said.guarantees.staleness.reset();
  said.guarantees.consistency = "sync";
  said.guarantees.recovery = "rollback";
  said.guarantees.backup_factor = 2;
};

uint64_t BackupsOf(LaneJob& job) {
  return JsonOf(job.Told().StatusJson()).at("rounds").at("backups").get<uint64_t>();
}

TEST_CASE("who has waited long enough gets a second lease of a late lane, for one round") {
  LaneJob job(/*lanes=*/3, /*records=*/4000, kBackup);
  LaneWorker first(job, "worker:0"), second(job, "worker:1"), third(job, "worker:2");
  Steps(job, {&first, &second, &third}, 120);
  const auto stuck = static_cast<uint32_t>(*second.lanes().begin());
  const auto mine = static_cast<uint32_t>(*first.lanes().begin());
  for (LaneWorker* worker : {&first, &second, &third}) {  // brings all lanes to one round
    const uint64_t lane = *worker->lanes().begin();
    while (job.table().NextOf(lane) < job.table().front()) Steps(job, {worker}, 1, 10);
  }
  Steps(job, {&first, &third}, 1);  // the round is not whole
  REQUIRE(BackupsOf(job) == 0);
  const uint32_t round = job.table().NextOf(stuck);
  first.computes = third.computes = false;
  first.late = {99, mine, stuck};
  first.AskAgain();
  CHECK(first.lanes() == LaneSet{mine, stuck});
  CHECK(first.NextOf(stuck) == round);
  CHECK(first.EndOf(stuck) == round + 1);
  CHECK(BackupsOf(job) == 1);
  // A third worker gets no lease of the late lane.
  third.late = {stuck};
  third.AskAgain();
  CHECK(third.lanes().size() == 1);
  CHECK(BackupsOf(job) == 1);
  // The lease ends with its round, even though other leases are extended.
  first.late.clear();
  first.computes = true;
  Steps(job, {&first}, 1);
  CHECK(first.lanes() == LaneSet{mine});
  CHECK(job.table().NextOf(stuck) == round + 1);
  // `third` reports an old round as late, which has no effect.
  third.late = {stuck};
  third.AskAgain();
  CHECK(third.lanes().size() == 1);
}

TEST_CASE("without backup workers nobody gets a lane for being late") {
  LaneJob job(/*lanes=*/2, /*records=*/4000, [](Job& said) {
    kBackup(said);
    said.guarantees.backup_factor.reset();
  });
  LaneWorker first(job, "worker:0"), second(job, "worker:1");
  Steps(job, {&first, &second}, 120);
  const auto stuck = static_cast<uint32_t>(*second.lanes().begin());
  Steps(job, {&first}, 1);
  first.computes = false;
  first.late = {stuck};
  first.AskAgain();
  Steps(job, {&first}, 40);  // 2 s
  CHECK(first.lanes().size() == 1);
  CHECK(BackupsOf(job) == 0);
}

TEST_CASE("with backup workers a lane that is behind goes on soon, though nobody says it is late") {
  LaneJob job(/*lanes=*/2, /*records=*/4000, kBackup);
  LaneWorker first(job, "worker:0"), second(job, "worker:1");
  Steps(job, {&first, &second}, 120);
  const uint64_t stuck = *second.lanes().begin();
  const uint32_t round = job.table().NextOf(stuck);
  REQUIRE(BackupsOf(job) == 0);
  Steps(job, {&first}, 20);  // 1 s
  CHECK(BackupsOf(job) > 0);
  CHECK(job.table().NextOf(stuck) > round);
}

}  // namespace
}  // namespace paracord
