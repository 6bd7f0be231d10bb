// Leases of lanes for workers that compute, wait, come and die.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "coordinator/lane_job.h"

namespace paracord {
namespace {

TEST_CASE("a job of rounds gets as many lanes as it says, or as the cluster names workers") {
  LaneJob said(/*lanes=*/4, /*records=*/95);
  REQUIRE(said.Join("worker:0", 95) != 0);
  CHECK(said.plan().lanes() == 4);
  CHECK(said.plan().split_batches() == 3);
  LaneJob named(/*lanes=*/0);
  REQUIRE(named.Join("worker:0", 4000) != 0);
  CHECK(named.plan().lanes() == 2);
  CoreHarness async;
  REQUIRE(async.Join("worker:0") != 0);
  CHECK(async.core->View().record.plan().lanes() == 0);
}

TEST_CASE("the first worker gets all lanes, and their leases end at one round") {
  LaneJob job(/*lanes=*/4);
  LaneWorker worker(job, "worker:0");
  CHECK(worker.lanes() == LaneSet{0, 1, 2, 3});
  CHECK(worker.ends() == std::set<uint32_t>{2});
  for (int i = 0; i < 300; ++i) {
    Steps(job, {&worker}, 1);
    CHECK(worker.lanes().size() >= 3);  // a used-up lease is granted again
    CHECK(worker.ends().size() <= 2);   // a worker may not have heard of some extensions
  }
  CHECK(worker.computed > 290);
  // A round takes 200 ms, so leases grow to 10 rounds.
  CHECK(worker.extensions > 4 * 5);
  CHECK(worker.leases < 40);
  const uint32_t end = *worker.ends().rbegin();
  CHECK(end <= job.table().front() + 12);
}

TEST_CASE("a worker that comes takes part within some two seconds, and nothing is computed twice") {
  LaneJob job(/*lanes=*/4, /*records=*/40000);
  LaneWorker first(job, "worker:0");
  Steps(job, {&first}, 400);
  LaneWorker second(job, "worker:1");
  CHECK(second.lanes().empty());
  const uint64_t before = first.computed;
  Steps(job, {&first, &second}, 60);  // 3 s
  CHECK(first.lanes() == LaneSet{0, 1});
  CHECK(second.lanes() == LaneSet{2, 3});
  CHECK(second.computed > 5);
  CHECK(first.computed > before + 50);
  Steps(job, {&first, &second}, 100);
  CHECK(first.computed + second.computed == job.table().batches_done());
}

TEST_CASE("with more workers than lanes the others stand by, and take the lanes of one that dies") {
  LaneJob job(/*lanes=*/2);
  LaneWorker first(job, "worker:0");
  LaneWorker second(job, "worker:1");
  LaneWorker third(job, "worker:2");
  second.Hold();
  Steps(job, {&first, &second, &third}, 120);
  CHECK(first.lanes() == LaneSet{0});
  CHECK(second.lanes() == LaneSet{1});
  CHECK(third.lanes().empty());
  CHECK(third.computed == 0);
  const int64_t died_ms = job.now;
  second.Die();
  while (third.computed == 0 && job.now < died_ms + 1000) Steps(job, {&first, &third}, 1, 10);
  CHECK(job.now - died_ms <= 200);
  CHECK(third.lanes() == LaneSet{1});
  CHECK(first.lanes() == LaneSet{0});
}

TEST_CASE("nobody waits for a worker that died alone: its lanes are free at once") {
  LaneJob job(/*lanes=*/4);
  LaneWorker first(job, "worker:0");
  LaneWorker second(job, "worker:1");
  second.Hold();
  Steps(job, {&first, &second}, 120);
  REQUIRE(second.lanes() == LaneSet{2, 3});
  second.Die();
  job.Run(100);
  first.TakeAnswer();
  CHECK(first.lanes() == LaneSet{0, 1, 2, 3});
}

TEST_CASE("a lane that does not come further is given to one more, and only the one behind") {
  LaneJob job(/*lanes=*/3);
  LaneWorker first(job, "worker:0");
  LaneWorker second(job, "worker:1");
  LaneWorker third(job, "worker:2");
  Steps(job, {&first, &second, &third}, 120);
  REQUIRE(second.lanes().size() == 1);
  const uint64_t stuck = *second.lanes().begin();
  const uint64_t mine = *third.lanes().begin();
  second.computes = false;
  Steps(job, {&first, &third}, 10);
  first.computes = third.computes = false;  // both wait for the lane
  Steps(job, {&first, &third}, 80);         // 4 s
  CHECK_FALSE(first.lanes().contains(stuck));
  Steps(job, {&first, &third}, 40);
  CHECK((first.lanes().contains(stuck) || third.lanes().contains(stuck)));
  CHECK(first.lanes().contains(mine) == false);
  CHECK(first.lanes().size() + third.lanes().size() == 3);
}

TEST_CASE("a lane whose batches take longer than a straggler's is not leased twice every round") {
  LaneJob job(/*lanes=*/2);
  LaneWorker first(job, "worker:0");
  LaneWorker second(job, "worker:1");
  const auto round = [&](bool second_stops = false) {  // lasts 6.2 s
    bool twice = false;
    for (int i = 0; i < 124; ++i) {
      job.Run(50);
      if (i == 120) first.Step();
      if (i == 123 && !second_stops) second.Step();
      for (LaneWorker* worker : {&first, &second}) worker->Wait();
      twice = twice || first.lanes().size() + second.lanes().size() > 2;
    }
    return twice;
  };
  for (int i = 0; i < 6; ++i) round();  // the first rounds teach how long a round takes
  for (int i = 0; i < 10; ++i) CHECK_FALSE(round());
  for (int i = 0; i < 2; ++i) CHECK_FALSE(round(/*second_stops=*/true));
  CHECK(round(/*second_stops=*/true));
}

constexpr auto kSynchronous = [](Job& said) {
  said.guarantees.staleness.reset();
  said.guarantees.consistency = "sync";
  said.guarantees.recovery = "rollback";
};

TEST_CASE("where all who have lanes wait for batches that nobody has, the ledgers are read again") {
  LaneJob job(/*lanes=*/2, /*count=*/4000, kSynchronous);
  LaneWorker worker(job, "worker:0");
  Steps(job, {&worker}, 4);
  worker.computes = false;
  worker.LieALittle();  // the batch may be in the sum of a round
  const auto next_of = [&] {
    uint32_t next = 0;
    for (const auto& [id, lease] : job.table().leases()) next = std::max(next, lease.next);
    return next;
  };
  Steps(job, {&worker}, 200);  // 10 s
  REQUIRE(next_of() == 3);
  worker.waits_for = "round 1";  // the worker reports this with its next request
  Steps(job, {&worker}, 300);
  CHECK(next_of() == 2);
}

TEST_CASE("a lone worker that reports batches which no ps has is given them again") {
  LaneJob job(/*lanes=*/2);
  LaneWorker worker(job, "worker:0");
  Steps(job, {&worker}, 4);
  worker.computes = false;
  const uint64_t lane = worker.Lie();
  REQUIRE(job.table().NextOf(lane) > 2);
  Steps(job, {&worker}, 200);
  CHECK(job.table().NextOf(lane) == 2);
  CHECK(worker.lanes() == LaneSet{0, 1});
}

TEST_CASE("a lane goes to another worker where its own reports batches that no ps has") {
  const bool sync = GENERATE(false, true);
  LaneJob job(/*lanes=*/2, /*count=*/4000, [&](Job& said) {
    if (sync) kSynchronous(said);
  });
  LaneWorker sound(job, "worker:0"), liar(job, "worker:1");
  Steps(job, {&sound, &liar}, 100);
  REQUIRE(sound.lanes().size() == 1);
  REQUIRE(liar.lanes().size() == 1);
  const uint64_t lane = *liar.lanes().begin();
  const uint32_t entered = liar.NextOf(lane);
  sound.computes = liar.computes = false;
  const auto taken_over = [&] {
    return sound.lanes().contains(lane) && sound.NextOf(lane) <= entered;
  };
  for (int i = 0; i < 60 && !taken_over(); ++i) {  // the liar reports steady progress
    liar.LieALittle();
    Steps(job, {&sound, &liar}, 10);
  }
  CHECK(taken_over());
  CHECK(job.log.find("worker:1 reports batches that no ps has") != std::string::npos);
  CHECK(job.log.find("worker:0 reports batches") == std::string::npos);
}

TEST_CASE("a lane whose last lease is old and that comes further all the time has one worker") {
  LaneJob job(/*lanes=*/2, /*records=*/40000);
  LaneWorker first(job, "worker:0");
  LaneWorker second(job, "worker:1");
  Steps(job, {&first, &second}, 400);  // 20 s, in which leases are extended
  CHECK(first.lanes().size() == 1);
  CHECK(second.lanes().size() == 1);
  CHECK(first.leases <= 10);
}

TEST_CASE("lanes go through the epochs to the end of the job, whose steps end with a round") {
  LaneJob job(/*lanes=*/4, /*records=*/95, [](Job& said) { said.steps = 21; });
  LaneWorker first(job, "worker:0");
  LaneWorker second(job, "worker:1");
  for (int i = 0; i < 400 && !job.exit.has_value(); ++i) Steps(job, {&first, &second}, 1);
  REQUIRE(job.exit.has_value());
  CHECK(job.exit->code == 0);
  CHECK(first.computed + second.computed == 24);  // 10 + 10 + a round of 4
  CHECK(job.committed.back().plan.lanes() == 4);
  CHECK(job.committed.back().partitions[0].applied == 24);
}

TEST_CASE("what moves on leases is counted in what a worker may say that it computed") {
  LaneJob job(/*lanes=*/4, /*records=*/400000);
  LaneWorker worker(job, "worker:0");
  Steps(job, {&worker}, 400);
  const WorkerSession& session = job.core->View().sessions.all().at(worker.session());
  CHECK(session.work.granted >= worker.computed);
  CHECK(session.work.granted <= worker.computed + 4 * 24);
}

}  // namespace
}  // namespace paracord
