// Scores a range of the test data: pulls exact values once an epoch and runs the program over the
// range on the executor. With tables, pulls the rows of each batch.
#include <memory>
#include <utility>

#include "common/failpoint.h"
#include "common/status_text.h"
#include "worker/problem.h"
#include "worker/score_records.h"
#include "worker/trainer.h"

namespace paracord {

void Trainer::StartEvaluation() {
  const EvaluationLease& lease = evaluations_.front();
  if (tables_) {
    const auto range = std::make_shared<ScoredRange>();
    range->first = range->next = lease.first_record();
    range->end = lease.end_record();
    range->batch = plan_.batch();
    range->states.resize(workload_->program->metric_names().size());
    range->report.set_lease(lease.id());
    return ScoreRows(range);
  }
  if (evaluated_epoch_ == lease.epoch()) return RunEvaluation();
  ExchangeOrder order;
  order.exact = true;
  Exchange(order, nullptr, [this, epoch = lease.epoch()](const ExchangeResult& result) {
    if (result.error.ok()) {
      evaluated_epoch_ = epoch;
      // Training needs values in the wire's encoding, not exact values.
      if (!options_.exact_values) pulled_ = false;
      return RunEvaluation();
    }
    EvaluationReport report;
    report.set_lease(evaluations_.front().id());
    report.set_problem(ProblemOfExchange(result.error, /*pushed=*/false));
    report.set_message(Sendable(result.error));
    Scored(report);
  });
}

void Trainer::Scored(const EvaluationReport& report) {
  evaluations_.pop_front();
  busy_ = false;
  callbacks_.evaluated(report);
  Next();
}

// Scores batch after batch: reads data, pulls rows, computes.
void Trainer::ScoreRows(const std::shared_ptr<ScoredRange>& range) {
  const auto run = [this, range](auto work, std::function<void()> then) {
    const auto status = std::make_shared<absl::Status>();
    environment_.executor.Run(
        [status, range, workload = workload_, work] { *status = work(*workload, *range); },
        gate_.Enter([this, status, range, then = std::move(then)] {
          if (status->ok()) return then();
          range->report.set_problem(ProblemOfBatch(*status, PROBLEM_DATA));
          range->report.set_message(Sendable(*status));
          Scored(range->report);
        }));
  };
  const auto score = [this, range, run](const ExchangeResult& pulled) {
    if (!pulled.error.ok()) {
      range->report.set_problem(ProblemOfExchange(pulled.error, /*pushed=*/false));
      range->report.set_message(Sendable(pulled.error));
      return Scored(range->report);
    }
    pulled_ = false;  // training pulls its own rows
    run(
        [values = parameters_->values()](Workload& workload, ScoredRange& of) {
          return ScoreWithRows(workload, values.tensors, of);
        },
        [this, range] {
          if (range->next < range->end) return ScoreRows(range);
          FAILPOINT("worker.evaluated");
          Scored(range->report);
        });
  };
  run(ReadForScore, [this, range, score] {
    ExchangeOrder order;
    order.exact = true;
    order.rows = {range->rows};
    Exchange(std::move(order), nullptr, score);
  });
}

void Trainer::RunEvaluation() {
  const auto report = std::make_shared<EvaluationReport>();
  report->set_lease(evaluations_.front().id());
  environment_.executor.Run(
      [report, workload = workload_, values = parameters_->values(), lease = evaluations_.front(),
       batch = uint64_t{plan_.batch()}] {
        const absl::Status scored = Evaluate(*workload, values.tensors, lease.first_record(),
                                             lease.end_record(), batch, *report);
        if (scored.ok()) return;
        report->set_problem(ProblemOfBatch(scored, PROBLEM_DATA));
        report->set_message(Sendable(scored));
      },
      gate_.Enter([this, report] {
        FAILPOINT("worker.evaluated");
        Scored(*report);
      }));
}

}  // namespace paracord
