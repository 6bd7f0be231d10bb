// A worker that takes part may say what is not so. It changes nothing but its own batches.
#include <catch2/catch.hpp>
#include <string>

#include "config/rejection.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("a lease has the proof that a batch is rejected, and the ps know its key") {
  CoreHarness harness([](Job& job) { job.failures = {true, 1, 1.0}; });
  const uint64_t session = harness.Join("worker:0");
  CHECK(harness.rejection_key == "key");
  const Lease lease = harness.Work(session).lease();
  CHECK(lease.rejections_size() == 0);
  LeaseReport failed = CoreHarness::Done(lease);
  failed.set_next(0);
  failed.set_problem(PROBLEM_DATA);
  harness.Work(session, {failed}, false);
  Lease again;
  for (int i = 0; i < 10 && again.rejected_size() == 0; ++i) {
    harness.Run(200);
    again = harness.Work(harness.Join("worker:0")).lease();
  }
  REQUIRE(again.rejected_size() == 1);
  REQUIRE(again.rejections_size() == 1);
  BatchId batch;
  batch.set_epoch(again.epoch());
  batch.set_split(again.split());
  batch.set_batch(again.rejected(0));
  CHECK(IsRejection(again.rejections(0), "key", batch));
}

}  // namespace
}  // namespace paracord
