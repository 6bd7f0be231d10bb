#include "coordinator/core/batch_failures.h"

#include <catch2/catch.hpp>

#include "tests/batches.h"

namespace paracord {
namespace {

using Verdict = BatchFailures::Verdict;

TEST_CASE("a batch is given up after per_batch failures on two workers where there are two") {
  BatchFailures failures(FailuresSpec{true, 3, 0.01});
  const BatchId batch = BatchOf(0, 4, 2);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Rejected(0, 4).empty());
  CHECK(failures.Add(batch, FailureKind::kData, "worker:1", true) == Verdict::kReject);
  CHECK(failures.Rejected(0, 4).empty());  // no worker has been told yet
  CHECK(failures.Withheld(0) == std::set<uint64_t>{4});
  REQUIRE(failures.Pending().size() == 1);
  CHECK(failures.Decide(failures.Pending()[0], /*entered=*/false));
  CHECK(failures.RejectedIn(0) == 1);
  CHECK(failures.Rejected(0, 4).empty());
  CHECK(failures.All().size() == 1);
  failures.Saved();
  CHECK(failures.Rejected(0, 4) == std::vector<uint32_t>{2});
  CHECK(failures.Withheld(0).empty());
  CHECK_FALSE(failures.RejectedNonFinite());
}

TEST_CASE("a lone worker's failures are enough when there is no other") {
  BatchFailures failures(FailuresSpec{true, 2, 0.01});
  CHECK(failures.Add(BatchOf(0, 0, 0), FailureKind::kNonFinite, "worker:0", false) ==
        Verdict::kTryAgain);
  CHECK(failures.Add(BatchOf(0, 0, 0), FailureKind::kNonFinite, "worker:0", false) ==
        Verdict::kReject);
  CHECK(failures.Decide(BatchOf(0, 0, 0), false));
  CHECK(failures.RejectedNonFinite());
}

TEST_CASE("policy fail ends the job instead of rejecting") {
  BatchFailures failures(FailuresSpec{false, 1, 0.01});
  CHECK(failures.Add(BatchOf(0, 0, 0), FailureKind::kShape, "worker:0", false) ==
        Verdict::kFailJob);
  CHECK(failures.RejectedIn(0) == 0);
}

TEST_CASE("a limit is counted by itself: it fails the job in the end, and rejects no batch") {
  BatchFailures failures(FailuresSpec{true, 2, 1.0});
  const BatchId batch = BatchOf(0, 4, 2);
  CHECK(failures.Add(batch, FailureKind::kLimit, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kData, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kLimit, "worker:0", true) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kLimit, "worker:1", true) == Verdict::kFailJob);
  CHECK(failures.Pending().empty());
  CHECK(failures.All().empty());
}

TEST_CASE("batches are counted apart and epochs that closed are forgotten") {
  BatchFailures failures(FailuresSpec{true, 1, 0.01});
  (void)failures.Add(BatchOf(0, 1, 3), FailureKind::kData, "w", false);
  (void)failures.Add(BatchOf(0, 1, 1), FailureKind::kData, "w", false);
  (void)failures.Add(BatchOf(1, 1, 0), FailureKind::kData, "w", false);
  for (const BatchId& batch : failures.Pending()) CHECK(failures.Decide(batch, false));
  failures.Saved();
  CHECK(failures.Rejected(0, 1) == std::vector<uint32_t>{1, 3});
  failures.ForgetBefore(1);
  CHECK(failures.RejectedIn(0) == 0);
  CHECK(failures.RejectedIn(1) == 1);
}

TEST_CASE("a batch that some partition has is tried again, and deaths no longer count") {
  BatchFailures failures(FailuresSpec{true, 2, 0.01, 2});
  const BatchId batch = BatchOf(0, 0, 1);
  const auto die = [&] { return failures.AddDeath(batch, Outlived::kByBusyWorkers); };
  const auto fail = [&] { return failures.Add(batch, FailureKind::kData, "w", false); };
  CHECK(die() == Verdict::kTryAgain);
  CHECK(die() == Verdict::kReject);
  CHECK(die() == Verdict::kTryAgain);  // the rejection is pending
  CHECK_FALSE(failures.Decide(batch, /*entered=*/true));
  CHECK(failures.Withheld(0).empty());
  for (int i = 0; i < 5; ++i) CHECK(die() == Verdict::kTryAgain);
  CHECK(fail() == Verdict::kTryAgain);
  CHECK(fail() == Verdict::kReject);
  CHECK(failures.Decide(batch, /*entered=*/true));  // otherwise the job would never end
}

TEST_CASE("deaths of workers count apart from failures, and only where others lived") {
  BatchFailures failures(FailuresSpec{true, 3, 0.01, 4});
  const BatchId batch = BatchOf(0, 0, 1);
  for (int i = 0; i < 100; ++i) {
    CHECK(failures.AddDeath(batch, Outlived::kByNobody) == Verdict::kTryAgain);
  }
  for (int i = 0; i < 9; ++i) {
    CHECK(failures.AddDeath(batch, Outlived::kByIdleWorkers) == Verdict::kTryAgain);
  }
  CHECK(failures.Add(batch, FailureKind::kData, "w", false) == Verdict::kTryAgain);
  CHECK(failures.Add(batch, FailureKind::kData, "w", false) == Verdict::kTryAgain);
  CHECK(failures.AddDeath(batch, Outlived::kByBusyWorkers) == Verdict::kReject);
  BatchFailures strict(FailuresSpec{false, 3, 0.01, 1});
  CHECK(strict.AddDeath(batch, Outlived::kByBusyWorkers) == Verdict::kFailJob);
}

TEST_CASE("the pause after a death grows with every further one, up to a bound") {
  BatchFailures failures(FailuresSpec{});
  CHECK(failures.PauseAfterDeath(BatchOf(0, 0, 1)) == 0);
  int64_t before = 0;
  for (int i = 0; i < 6; ++i) {
    const int64_t pause_ms = failures.PauseAfterDeath(BatchOf(0, 0, 1));
    CHECK(pause_ms > before);
    before = pause_ms;
  }
  for (int i = 0; i < 100; ++i) CHECK(failures.PauseAfterDeath(BatchOf(0, 0, 1)) <= 10000);
  CHECK(failures.PauseAfterDeath(BatchOf(0, 0, 2)) == 0);
}

}  // namespace
}  // namespace paracord
