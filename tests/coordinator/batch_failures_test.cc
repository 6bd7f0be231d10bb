#include "coordinator/batch_failures.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

using Verdict = BatchFailures::Verdict;

BatchId Batch(uint64_t epoch, uint64_t split, uint32_t batch) {
  BatchId id;
  id.set_epoch(epoch);
  id.set_split(split);
  id.set_batch(batch);
  return id;
}

TEST_CASE("a batch is given up after per_batch failures on two workers where there are two") {
  BatchFailures failures(FailuresSpec{true, 3, 0.01});
  const BatchId batch = Batch(0, 4, 2);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Rejected(0, 4).empty());
  CHECK(failures.Add(batch, FailureKind::kData, "worker:1", true) == Verdict::kReject);
  CHECK(failures.Rejected(0, 4) == std::vector<uint32_t>{2});
  CHECK(failures.RejectedIn(0) == 1);
  CHECK_FALSE(failures.RejectedNonFinite());
}

TEST_CASE("a lone worker's failures are enough when there is no other") {
  BatchFailures failures(FailuresSpec{true, 2, 0.01});
  CHECK(failures.Add(Batch(0, 0, 0), FailureKind::kNonFinite, "worker:0", false) ==
        Verdict::kTryAgain);
  CHECK(failures.Add(Batch(0, 0, 0), FailureKind::kNonFinite, "worker:0", false) ==
        Verdict::kReject);
  CHECK(failures.RejectedNonFinite());
}

TEST_CASE("policy fail ends the job instead of rejecting") {
  BatchFailures failures(FailuresSpec{false, 1, 0.01});
  CHECK(failures.Add(Batch(0, 0, 0), FailureKind::kShape, "worker:0", false) == Verdict::kFailJob);
  CHECK(failures.RejectedIn(0) == 0);
}

TEST_CASE("batches are counted apart and epochs that closed are forgotten") {
  BatchFailures failures(FailuresSpec{true, 1, 0.01});
  (void)failures.Add(Batch(0, 1, 3), FailureKind::kData, "w", false);
  (void)failures.Add(Batch(0, 1, 1), FailureKind::kData, "w", false);
  (void)failures.Add(Batch(1, 1, 0), FailureKind::kData, "w", false);
  CHECK(failures.Rejected(0, 1) == std::vector<uint32_t>{1, 3});
  failures.ForgetBefore(1);
  CHECK(failures.RejectedIn(0) == 0);
  CHECK(failures.RejectedIn(1) == 1);
}

}  // namespace
}  // namespace paracord
