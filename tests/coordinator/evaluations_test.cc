#include "coordinator/core/evaluations.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

Job JobThatStops() {
  Job job;
  job.batch = 10;
  job.evaluate_every_epochs = 1;
  job.failures.per_batch = 2;
  job.stop_when = StopWhen{};
  job.stop_when->metric = "loss";
  job.stop_when->patience = 1;
  return job;
}

// Scores an epoch of ten test records, in a single range.
void Score(Evaluations& evaluations, uint64_t epoch, double loss) {
  evaluations.Start(1, epoch, 10, {"loss"});
  const auto lease = evaluations.Grant(epoch + 1, 7);
  REQUIRE(lease.has_value());
  EvaluationReport report;
  report.set_lease(lease->id());
  report.set_examples(10);
  MetricState& state = *report.add_metrics();
  state.add_values(loss * 10);
  state.add_values(10);
  CHECK(evaluations.Report(7, report).status.ok());
  REQUIRE(evaluations.FinishIfDone());
  CHECK_FALSE(evaluations.running());
}

TEST_CASE("the best result is kept only where the job asks for it") {
  Job job = JobThatStops();
  Evaluations evaluations(job);
  Score(evaluations, 0, 0.5);
  CHECK(evaluations.Best() != nullptr);
  CHECK(evaluations.KeptBest() == nullptr);
  job.stop_when->restore_best = true;
  CHECK(evaluations.KeptBest() == evaluations.Best());
  job.stop_when.reset();
  CHECK(evaluations.KeptBest() == nullptr);
}

TEST_CASE("a result is neither told nor acted on before it is saved") {
  const Job job = JobThatStops();
  Evaluations evaluations(job);
  Score(evaluations, 0, 0.5);
  CHECK(evaluations.unsaved());
  CHECK(evaluations.told().empty());
  CHECK(evaluations.TakeUnnotified());
  CHECK(evaluations.TakeUnsaved());
  CHECK_FALSE(evaluations.TakeUnsaved());
  REQUIRE(evaluations.told().size() == 1);
  CHECK(InWords(evaluations.told()[0], 3) == "epoch 1/3: test loss=0.5000");
}

TEST_CASE("results that grow worse stop the job, and the best stays known") {
  const Job job = JobThatStops();
  Evaluations evaluations(job);
  Score(evaluations, 0, 0.5);
  CHECK_FALSE(evaluations.stop().has_value());
  Score(evaluations, 1, 0.6);
  REQUIRE(evaluations.stop().has_value());
  CHECK(evaluations.stop()->epochs == 2);
  REQUIRE(evaluations.Best() != nullptr);
  CHECK(evaluations.Best()->epoch == 0);
}

TEST_CASE("results of epochs that a restore takes back are void, with the stop they decided") {
  const Job job = JobThatStops();
  Evaluations evaluations(job);
  evaluations.Restore({{0, {{"loss", 0.5}}}, {1, {{"loss", 0.6}}}}, StopDecision{2, "worse"});
  CHECK_FALSE(evaluations.Void(2));
  CHECK(evaluations.stop().has_value());
  CHECK(evaluations.Void(1));
  CHECK(evaluations.unsaved());
  CHECK_FALSE(evaluations.stop().has_value());
  CHECK(evaluations.Has(0));
  CHECK_FALSE(evaluations.Has(1));
  CHECK(evaluations.told().size() == 1);
}

TEST_CASE("an epoch is scored where the job says so, and always the last") {
  Job job = JobThatStops();
  job.evaluate_every_epochs = 2;
  const Evaluations evaluations(job);
  CHECK_FALSE(evaluations.Due(0, 5));
  CHECK(evaluations.Due(1, 5));
  CHECK(evaluations.Due(4, 5));
}

TEST_CASE("test records that cannot be read are hopeless after per_batch reports in a row") {
  const Job job = JobThatStops();
  Evaluations evaluations(job);
  evaluations.Start(1, 0, 10, {"loss"});
  for (uint64_t id = 1; id <= 2; ++id) {
    EvaluationReport report;
    report.set_lease(evaluations.Grant(id, 7)->id());
    report.set_problem(PROBLEM_DATA);
    report.set_message("/data/t10k: row 3");
    const Evaluations::ReportOutcome taken = evaluations.Report(7, report);
    CHECK_FALSE(taken.status.ok());
    CHECK(taken.hopeless == (id == 2));
    CHECK_FALSE(taken.limit);
  }
  EvaluationReport limited;
  limited.set_lease(evaluations.Grant(3, 7)->id());
  limited.set_problem(PROBLEM_LIMIT);
  CHECK(evaluations.Report(7, limited).limit);
}

TEST_CASE("a new generation gives up the evaluation under way") {
  const Job job = JobThatStops();
  Evaluations evaluations(job);
  evaluations.Start(1, 0, 10, {"loss"});
  CHECK(evaluations.HasFree());
  evaluations.Cancel();
  CHECK_FALSE(evaluations.HasFree());
  CHECK_FALSE(evaluations.Grant(1, 7).has_value());
  CHECK_FALSE(evaluations.FinishIfDone());
  CHECK(evaluations.results().empty());
}

}  // namespace
}  // namespace paracord
