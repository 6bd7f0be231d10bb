#include "coordinator/core/training.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

// Returns a plan of ten batches an epoch in splits of two.
DataPlan Plan() {
  DataPlan plan;
  plan.set_records(100);
  plan.set_batch(10);
  plan.set_split_batches(2);
  return plan;
}

JobExtent Extent(uint64_t epochs, std::optional<uint64_t> steps = std::nullopt) {
  Job job;
  job.epochs = epochs;
  job.steps = steps;
  return JobExtent(job, Plan(), std::nullopt);
}

Ledger Finished(uint64_t splits) {
  Ledger ledger;
  if (splits > 0) ledger.add_finished()->set_last(splits - 1);
  return ledger;
}

TEST_CASE("a job has the batches of its epochs or its steps, and no more than it stops after") {
  CHECK(Extent(3).batches() == 30);
  CHECK(Extent(3).BatchesOfEpoch(2) == 10);
  CHECK(Extent(3).BatchesOfEpoch(3) == 0);
  CHECK(Extent(1, 25).epochs() == 3);
  CHECK(Extent(1, 25).batches() == 25);
  CHECK(Extent(1, 25).BatchesOfEpoch(2) == 5);
  CHECK(Extent(1, 25).BatchesUpTo(2) == 20);
  Job job;
  job.epochs = 9;
  const JobExtent stopped(job, Plan(), StopDecision{4, "it grows worse"});
  CHECK(stopped.epochs() == 4);
  CHECK(stopped.batches() == 40);
}

TEST_CASE("a job with lanes ends with the round that its steps fall into") {
  DataPlan plan = Plan();
  plan.set_lanes(4);
  plan.set_split_batches(3);
  Job job;
  job.steps = 25;
  const JobExtent extent(job, plan, std::nullopt);
  CHECK(extent.epochs() == 3);
  CHECK(extent.batches() == 28);
  CHECK(extent.BatchesOfEpoch(2) == 8);
  job.steps = 29;
  CHECK(JobExtent(job, plan, std::nullopt).batches() == 30);
}

TEST_CASE("the first open epoch is the first that any ledger lacks a batch of") {
  const Training training;
  const Ledger far = Finished(12);
  const Ledger near = Finished(7);
  CHECK(training.FirstOpen({}, Plan(), Extent(3)).epoch == 0);
  const OpenEpoch open = training.FirstOpen({&far, &near}, Plan(), Extent(3));
  CHECK(open.epoch == 1);
  CHECK(open.next == std::vector<uint32_t>{2, 2});
  const Ledger all = Finished(15);
  CHECK(training.FirstOpen({&all}, Plan(), Extent(3)).epoch == 3);
}

TEST_CASE("a split that a lease was lost of may be pushed until a generation keeps that out") {
  Training training;
  training.Open({0, {}}, 10, Plan());
  CHECK(training.IsOpen(0));
  const auto lease = training.table()->Grant(1, 7, 0);
  REQUIRE(lease.has_value());
  CHECK(training.MayBePushed(lease->split()));
  CHECK_FALSE(training.MayBePushed(lease->split() + 1));
  CHECK(training.EndSession(7).size() == 1);
  CHECK(training.EndSession(7).empty());
  CHECK(training.MayBePushed(lease->split()));
  training.Fenced();
  CHECK_FALSE(training.MayBePushed(lease->split()));
  training.Abandon(3);
  training.Open({1, {}}, 10, Plan());
  CHECK_FALSE(training.MayBePushed(3));
}

TEST_CASE("an epoch is closed once") {
  Training training;
  CHECK_FALSE(training.CloseBefore(0));
  CHECK(training.CloseBefore(2));
  CHECK_FALSE(training.CloseBefore(2));
  CHECK(training.closed() == 2);
  training.Open({2, {}}, 10, Plan());
  training.Close();
  CHECK(training.table() == nullptr);
  CHECK_FALSE(training.IsOpen(2));
}

}  // namespace
}  // namespace paracord
