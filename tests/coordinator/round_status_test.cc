// The status tells the progress of a job's rounds, and whom the open round waits for.
#include "coordinator/core/round_status.h"

#include <catch2/catch.hpp>

#include "coordinator/sync_job.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

TEST_CASE("a job without lanes has no rounds") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  CHECK(RoundsJson(harness.core->View()).is_null());
  CHECK_FALSE(JsonOf(harness.Told().StatusJson()).contains("rounds"));
}

TEST_CASE("the status says which round a job has come to, and whom that waits for") {
  SyncJob job;
  const uint64_t first = job.Join("worker:0");
  REQUIRE(first != 0);
  CHECK(job.Rounds().at("round") == 0);
  CHECK(job.Rounds().at("rounds") == 8);
  CHECK_FALSE(job.Rounds().contains("seconds_a_round"));
  const WorkReply reply = job.Work(first);
  REQUIRE(reply.has_lease());
  REQUIRE(reply.lanes_size() == 1);
  const uint64_t second = job.Join("worker:1");
  CHECK_FALSE(job.Rounds().contains("waits_for"));
  const auto report = [&](const Lease& lease, uint32_t next, bool ended) {
    LeaseReport progress;
    progress.set_lease(lease.id());
    progress.set_next(next);
    progress.set_ended(ended);
    return progress;
  };
  job.Run(400);
  job.Work(first, {report(reply.lease(), 1, false)}, false);
  CHECK(job.Rounds().at("waits_for") == "worker:0");  // worker:0 has both lanes
  job.Work(first, {report(reply.lanes(0), 0, true)}, false);
  CHECK(job.Rounds().at("waits_for") == "a lane that nobody has");
  job.Work(second);
  job.Run(500);
  REQUIRE(job.works[job.call].has_lease());
  CHECK(job.Rounds().at("waits_for") == "worker:1");
  job.Run(100);
  job.Work(second, {report(job.works[job.call].lease(), 1, false)}, false);
  CHECK(job.Rounds().at("round") == 1);
  CHECK_FALSE(job.Rounds().contains("waits_for"));
  CHECK(job.Rounds().at("seconds_a_round").get<double>() == Approx(1.0).margin(0.2));
}

// Joins as a worker that reports its devices and numerics.
uint64_t JoinWith(CoreHarness& job, const std::string& task, uint32_t devices,
                  const std::string& numerics) {
  JoinRequest request;
  request.set_task(task);
  request.set_boot_id(task + "-boot");
  request.set_protocol(kProtocol);
  request.set_devices(devices);
  request.set_numerics(numerics);
  *request.mutable_facts() = job.Facts(kSyncRecords, 0);
  for (int tries = 0; tries < 3; ++tries) {
    job.Feed(JoinEvent{++job.call, request});
    if (job.joins[job.call].has_session()) return job.joins[job.call].session().id();
  }
  return 0;
}

TEST_CASE("workers that compute with other numerics are said once, and in the summary") {
  SyncJob job;
  REQUIRE(JoinWith(job, "worker:0", 1, "cpu vectors 512") != 0);
  CHECK(job.Rounds().at("same_numerics") == true);
  CHECK(job.Rounds().at("reduce") == "exact");
  REQUIRE(JoinWith(job, "worker:1", 1, "cpu vectors\n256") != 0);
  REQUIRE(JoinWith(job, "worker:2", 1, "cuda") != 0);
  CHECK(job.Rounds().at("same_numerics") == false);
  const std::string said =
      "worker:1 computes with \"cpu vectors; 256\" and worker:0 with \"cpu vectors 512\"";
  CHECK(job.log.find(said) != std::string::npos);
  CHECK(job.log.find("worker:2 computes with") == std::string::npos);
}

TEST_CASE("a round has a batch for each device of the workers that the cluster names") {
  for (const auto& [devices, lanes] : {std::pair(0u, 2u), std::pair(1u, 2u), std::pair(3u, 6u)}) {
    CAPTURE(devices);
    SyncJob job([](Job& said) { said.guarantees.round_batches.reset(); });
    JoinWith(job, "worker:0", devices, "");
    CHECK(job.core->View().record.plan().lanes() == lanes);
  }
}

}  // namespace
}  // namespace paracord
