// Second holders of partitions in asynchronous training: they prepare checkpoints, and go on with
// what a lost ps held.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

void WithCopies(Job& job) {
  job.partitioner.copies = 1;
  job.checkpoint.every_seconds = 0.5;
  job.epochs = 6;
}

nlohmann::json CopiesOf(const CoreHarness& harness) {
  return JsonOf(harness.Told().StatusJson()).value("copies", nlohmann::json());
}

Layout LayoutOf(const CoreHarness& harness) {
  return ParseJobState(harness.job_state, "job.state")->layout.value();
}

// The connection to ps:1 breaks, and nobody takes another one.
void Lose(CoreHarness& harness) {
  harness.dead = {1};
  const uint64_t tag = harness.hold_tags[1];
  harness.Feed(PsAnswerEvent{1, tag, absl::UnavailableError("connection lost")});
}

// Trains a split, and runs until a checkpoint of it is committed and prepared.
uint64_t TrainToACheckpoint(CoreHarness& harness) {
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(session != 0);
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.Enter(reply.lease());
  harness.Work(session, {CoreHarness::Done(reply.lease())}, false);
  harness.Run(1500);
  REQUIRE_FALSE(harness.committed.empty());
  return session;
}

std::string Newest(const CoreHarness& harness) { return harness.committed.back().name.ToString(); }

void CheckThatItEnds(CoreHarness& harness) {
  harness.Run(200);
  for (int i = 0; i < 3 && !harness.exit.has_value(); ++i) {
    TrainAll(harness, harness.Join("worker:0"));
  }
  harness.Run(3000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 0);
}

FoundInDir FoundAfter(const CoreHarness& harness) {
  FoundInDir found = After(harness);
  found.manifests = {harness.committed.back()};
  return found;
}

TEST_CASE("each partition has a second ps, which prepares every checkpoint") {
  CoreHarness harness(WithCopies);
  const uint64_t session = TrainToACheckpoint(harness);
  const Layout layout = LayoutOf(harness);
  REQUIRE(layout.holders.size() == 4);
  for (size_t p = 0; p < 4; ++p) CHECK(layout.seconds[p] == 1 - layout.holders[p]);
  CHECK(layout.version == 0);
  REQUIRE(harness.prepares.size() == 2);
  for (const auto& [ps, order] : harness.prepares) {
    CHECK(order.checkpoint() == Newest(harness));
    for (const PartitionSpec& partition : order.partitions()) {
      CHECK(layout.SecondOf(partition.id()) == ps);
    }
  }
  const nlohmann::json copies = CopiesOf(harness);
  CHECK(copies.at("partitions") == 4);
  CHECK(copies.at("with_both") == 4);
  CHECK(copies.at("bytes_with_one") == 0);
  CHECK(copies.at("by_ps").at(0).at("checkpoint") == Newest(harness));
  // Nobody's session ends for that, and the next checkpoint is prepared, too.
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.Enter(reply.lease());
  harness.Work(session, {CoreHarness::Done(reply.lease())}, false);
  harness.Run(1500);
  REQUIRE(harness.prepares.size() == 4);
  CHECK(harness.prepares.back().second.checkpoint() == Newest(harness));
  CHECK(Newest(harness) != copies.at("by_ps").at(0).at("checkpoint"));
  CheckThatItEnds(harness);
}

TEST_CASE("when a ps is lost its partitions go on with their seconds, without waiting for it") {
  CoreHarness harness(WithCopies);
  const uint64_t session = TrainToACheckpoint(harness);
  const uint64_t generation = harness.core->generation();
  const size_t loads = harness.loads.size();
  Lose(harness);
  harness.Run(500);
  const Layout layout = LayoutOf(harness);
  CHECK(layout.holders == std::vector<uint32_t>{0, 0, 0, 0});
  CHECK(layout.version == 1);
  CHECK(harness.core->generation() == generation + 1);
  REQUIRE(harness.loads.size() == loads + 1);
  CHECK(harness.loads.back().partitions_size() == 4);
  CHECK(harness.loads.back().retain());
  CHECK(harness.loads.back().checkpoint() == Newest(harness));
  CHECK(harness.Work(session).has_rejoin());
  REQUIRE(harness.Join("worker:0") != 0);
  const Session& joined = harness.joins[harness.call].session();
  REQUIRE(joined.ps_size() == 1);
  CHECK(joined.ps(0).address() == "unix:/ps-0");
  for (const PartitionSpec& partition : joined.partitions()) CHECK(partition.ps() == 0);
  const nlohmann::json copies = CopiesOf(harness);
  CHECK(copies.at("promotions") == 1);
  CHECK(copies.at("with_both") == 0);
  CHECK(copies.at("bytes_with_one") == 800000);
  CheckThatItEnds(harness);
  CHECK(harness.committed.back().files.size() == 1);
}

TEST_CASE("the layout is durable before anybody loads by it") {
  CoreHarness harness(WithCopies);
  TrainToACheckpoint(harness);
  const std::string before = harness.job_state;
  const size_t loads = harness.loads.size();
  const uint64_t generation = harness.core->generation();
  SECTION("while it is written nothing else happens") {
    harness.hold_state = true;
    Lose(harness);
    harness.dead.clear();  // it is back meanwhile, as it was
    harness.Run(3000);
    CHECK(harness.core->generation() == generation);
    CHECK(harness.loads.size() == loads);
  }
  SECTION("a write that fails is made again") {
    harness.state_status = absl::ResourceExhaustedError("/job: no space left");
    Lose(harness);
    harness.Run(3000);
    CHECK(harness.loads.size() == loads);
    CHECK(JsonOf(harness.Told().StatusJson()).at("waiting") ==
          "job.state cannot be written: /job: no space left");
    harness.state_status = absl::OkStatus();
    harness.Run(3000);
    CHECK(harness.loads.size() == loads + 1);
    CheckThatItEnds(harness);
  }
  SECTION("a coordinator that dies after the write leaves its successor the new layout") {
    harness.hold_state = true;
    Lose(harness);
    harness.Run(500);
    CHECK(harness.loads.size() == loads);
    FoundInDir found = FoundAfter(harness);
    CoreHarness next(WithCopies, std::move(found), &harness, {1});
    next.Run(500);
    REQUIRE(next.loads.size() == 1);
    CHECK(next.loads.back().partitions_size() == 4);
    CHECK(next.loads.back().retain());
    CheckThatItEnds(next);
  }
  SECTION("a coordinator that dies before it leaves its successor the old one, and a ps to miss") {
    FoundInDir found = FoundAfter(harness);
    found.job_state = ParseJobState(before, "job.state").value();
    CoreHarness next(WithCopies, std::move(found), &harness, {1});
    next.Run(1000);
    CHECK(LayoutOf(next).holders == std::vector<uint32_t>{0, 0, 0, 0});
    REQUIRE_FALSE(next.loads.empty());
    CHECK(next.loads.back().retain());
    CheckThatItEnds(next);
  }
}

TEST_CASE("a ps that was lost drops what it has when it is back, and is a second from then on") {
  CoreHarness harness(WithCopies);
  TrainToACheckpoint(harness);
  Lose(harness);
  harness.Run(500);
  const uint64_t generation = harness.core->generation();
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(session != 0);
  harness.loads.clear();
  harness.dead.clear();
  size_t dropped = 1;
  SECTION("as it was") {}
  SECTION("with another life, which has nothing") {
    harness.ps[1].Clear();
    harness.ps[1].set_protocol(kProtocol);
    harness.ps[1].set_boot_id("boot-1-again");
  }
  harness.Run(3000);
  REQUIRE(harness.loads.size() == dropped);
  CHECK(harness.loads.back().partitions_size() == 0);
  CHECK(harness.ps[1].partitions_size() == 0);
  // That ends no session and no generation.
  CHECK(harness.core->generation() == generation);
  CHECK_FALSE(harness.Work(session).has_rejoin());
  // Another that follows it would share the copies of what it was the first holder of.
  CHECK(std::ranges::count(LayoutOf(harness).seconds, kNobody) == 2);
  harness.Run(6000);
  CHECK(CopiesOf(harness).at("with_both") == 4);
  CHECK(LayoutOf(harness).seconds == std::vector<uint32_t>{1, 1, 1, 1});
  // Then the other one may be lost.
  harness.dead = {0};
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("lost")});
  harness.Run(500);
  CHECK(LayoutOf(harness).holders == std::vector<uint32_t>{1, 1, 1, 1});
  CheckThatItEnds(harness);
}

TEST_CASE("a ps that comes back with nothing is not waited for while it reads") {
  CoreHarness harness(WithCopies);
  TrainToACheckpoint(harness);
  harness.loads.clear();
  harness.ps[1].Clear();
  harness.ps[1].set_protocol(kProtocol);
  harness.ps[1].set_boot_id("boot-1-again");
  harness.Feed(PsAnswerEvent{1, harness.hold_tags[1], absl::UnavailableError("lost")});
  harness.Run(500);
  CHECK(LayoutOf(harness).holders == std::vector<uint32_t>{0, 0, 0, 0});
  // It drops nothing, and the other one holds all.
  REQUIRE(harness.loads.size() == 2);
  CHECK(harness.loads[0].partitions_size() + harness.loads[1].partitions_size() == 4);
  CHECK(harness.ps[0].partitions_size() == 4);
  CheckThatItEnds(harness);
}

TEST_CASE("a connection that breaks for a moment moves nothing") {
  CoreHarness harness(WithCopies);
  TrainToACheckpoint(harness);
  harness.Feed(PsAnswerEvent{1, harness.hold_tags[1], absl::UnavailableError("lost")});
  harness.Run(1000);
  CHECK(LayoutOf(harness).version == 0);
  CHECK(CopiesOf(harness).at("promotions") == 0);
}

TEST_CASE("a partition both of whose ps are lost is read from the newest checkpoint") {
  CoreHarness harness(WithCopies);
  TrainToACheckpoint(harness);
  harness.loads.clear();
  harness.dead = {0, 1};
  // The second of what ps:0 held is thought to be there until it is lost, too.
  for (const uint32_t i : {0u, 1u}) {
    harness.Feed(PsAnswerEvent{i, harness.hold_tags[i], absl::UnavailableError("lost")});
  }
  harness.Run(3000);
  CHECK(harness.loads.empty());
  CHECK_FALSE(harness.exit.has_value());
  for (PsDescription& ps : harness.ps) {
    const std::string boot_id = ps.boot_id() + "-again";
    ps.Clear();
    ps.set_protocol(kProtocol);
    ps.set_boot_id(boot_id);
  }
  harness.dead.clear();
  harness.entered.clear();
  harness.Run(1000);
  int read = 0;
  for (const LoadRequest& load : harness.loads) {
    CHECK(load.checkpoint() == Newest(harness));
    read += load.partitions_size();
  }
  CHECK(read == 4);
  CheckThatItEnds(harness);
}

TEST_CASE("seconds that have prepared nothing take over when a ps has been away for too long") {
  CoreHarness harness([](Job& job) {
    WithCopies(job);
    job.timeouts.ps_return_s = 3;
  });
  harness.prepare_status = absl::UnavailableError("not now");
  TrainToACheckpoint(harness);
  CHECK(CopiesOf(harness).at("with_both") == 0);
  Lose(harness);
  harness.Run(2000);
  CHECK(LayoutOf(harness).version == 0);
  harness.Run(2000);
  CHECK(LayoutOf(harness).holders == std::vector<uint32_t>{0, 0, 0, 0});
  CHECK_FALSE(harness.exit.has_value());
  CheckThatItEnds(harness);
}

TEST_CASE("a ps without room for copies holds none, and the job trains on and says so") {
  CoreHarness harness(WithCopies);
  harness.prepare_status = absl::ResourceExhaustedError("--memory-limit is 1 GiB");
  TrainToACheckpoint(harness);
  harness.Run(10'000);
  // It is not asked again and again.
  CHECK(harness.prepares.size() == 2);
  const nlohmann::json copies = CopiesOf(harness);
  CHECK(copies.at("with_both") == 0);
  CHECK(copies.at("bytes_with_one") == 800000);
  CHECK(copies.at("by_ps").at(1).at("problem") == "--memory-limit is 1 GiB");
  CHECK(LayoutOf(harness).seconds == std::vector<uint32_t>(4, kNobody));
  CheckThatItEnds(harness);
}

TEST_CASE("a job with copies moves to two ps at least, and to none that is away") {
  CoreHarness harness(WithCopies);
  TrainToACheckpoint(harness);
  ScaleRequest request;
  request.set_ps(1);
  harness.Feed(ScaleEvent{++harness.call, request});
  CHECK_THAT(std::string(harness.scaled.status().message()), Catch::Contains("give at least 2"));
  Lose(harness);
  harness.Run(500);
  request.set_ps(2);
  harness.Feed(ScaleEvent{++harness.call, request});
  CHECK_THAT(std::string(harness.scaled.status().message()), Catch::Contains("ps:1 at unix:/ps-1"));
  // When it is back, the same number of ps gives it partitions again.
  harness.dead.clear();
  harness.Run(3000);
  harness.Feed(ScaleEvent{++harness.call, request});
  REQUIRE(harness.scaled.ok());
  harness.Run(3000);
  CHECK(JsonOf(harness.Told().StatusJson()).at("move").at("phase") == "done");
  CHECK(harness.ps[0].partitions_size() == 2);
  CHECK(harness.ps[1].partitions_size() == 2);
  CheckThatItEnds(harness);
}

TEST_CASE("a ps that is lost while a move prepares is not waited for, and the move is given up") {
  CoreHarness harness(WithCopies);
  harness.growing = true;
  TrainToACheckpoint(harness);
  Lose(harness);
  harness.Run(500);
  harness.dead.clear();
  harness.Run(9000);
  REQUIRE(CopiesOf(harness).at("with_both") == 4);
  // ps:1 is to prepare what it will be the first holder of, in place of all that it is second of.
  harness.silent_prepare = true;
  ScaleRequest request;
  request.set_ps(2);
  harness.Feed(ScaleEvent{++harness.call, request});
  REQUIRE(harness.scaled.ok());
  harness.Run(500);
  const auto move = [&] { return JsonOf(harness.Told().StatusJson()).at("move"); };
  REQUIRE(move().at("phase") == "preparing");
  REQUIRE(harness.prepares.back().second.partitions_size() == 2);
  harness.dead = {0};
  harness.Feed(PsAnswerEvent{0, harness.hold_tags[0], absl::UnavailableError("lost")});
  harness.Run(1000);
  CHECK(move().at("phase") == "given up");
  CHECK(move().at("problem") == "ps:0 is lost");
  CHECK(LayoutOf(harness).holders == std::vector<uint32_t>{1, 1, 1, 1});
  CHECK(harness.loads.back().partitions_size() == 4);
  CHECK(harness.loads.back().checkpoint() == Newest(harness));
  harness.silent_prepare = false;
  CheckThatItEnds(harness);
}

TEST_CASE("a checkpoint that a second reads stays until it has read it") {
  CoreHarness harness([](Job& job) {
    WithCopies(job);
    job.checkpoint.keep = 1;
  });
  harness.silent_prepare = true;
  const uint64_t session = TrainToACheckpoint(harness);
  const std::string first = Newest(harness);
  for (int i = 0; i < 3; ++i) {
    const WorkReply reply = harness.Work(session);
    REQUIRE(reply.has_lease());
    harness.Enter(reply.lease());
    harness.Work(session, {CoreHarness::Done(reply.lease())}, false);
    harness.Run(1000);
  }
  REQUIRE(harness.committed.size() >= 3);
  CHECK_FALSE(harness.removed.empty());
  CHECK(std::ranges::find(harness.removed, first) == harness.removed.end());
}

TEST_CASE("a job without copies waits for its ps, and has no copies to tell of") {
  CoreHarness harness([](Job& job) {
    WithCopies(job);
    job.partitioner.copies = 0;
  });
  TrainToACheckpoint(harness);
  CHECK(CopiesOf(harness).is_null());
  Lose(harness);
  harness.Run(3000);
  CHECK(harness.prepares.empty());
  CHECK_FALSE(ParseJobState(harness.job_state, "job.state")->layout.has_value());
}

}  // namespace
}  // namespace paracord
