// Scoring a piece of the test data: the values are pulled exactly, once an epoch, and the program
// runs over the piece on the executor.
#include <memory>
#include <utility>

#include "common/failpoint.h"
#include "common/status_text.h"
#include "worker/evaluate.h"
#include "worker/trainer.h"

namespace paracord {

void Trainer::StartEvaluation() {
  const EvaluationLease& lease = evaluations_.front();
  if (evaluated_epoch_ == lease.epoch()) return RunEvaluation();
  ExchangeOrder order;
  order.exact = true;
  Exchange(order, nullptr, [this, epoch = lease.epoch()](const ExchangeResult& result) {
    if (result.error.ok()) {
      evaluated_epoch_ = epoch;
      // Training goes on with values as they travel, not with exact ones.
      if (!options_.exact_values) pulled_ = false;
      return RunEvaluation();
    }
    EvaluationReport report;
    report.set_lease(evaluations_.front().id());
    report.set_problem(PROBLEM_UNREACHABLE);
    report.set_message(Sendable(result.error));
    evaluations_.pop_front();
    busy_ = false;
    callbacks_.evaluated(report);
    Next();
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
        report->set_problem(PROBLEM_DATA);
        report->set_message(Sendable(scored));
      },
      [this, alive = alive_, report] {
        if (!*alive) return;
        FAILPOINT("worker.evaluated");
        evaluations_.pop_front();
        busy_ = false;
        callbacks_.evaluated(*report);
        Next();
      });
}

}  // namespace paracord
