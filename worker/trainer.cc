#include "worker/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/mutant.h"
#include "common/protocol.h"
#include "worker/batch_plan.h"
#include "worker/evaluate.h"

namespace paracord {
namespace {

constexpr int64_t kRetryMs = 100;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

struct ComputeResult {
  absl::Status data;   // reading the batch
  absl::Status model;  // computing with it
  uint32_t examples = 0;
  double loss = 0;
  const VariableSpec* nonfinite = nullptr;
  std::string bad_input;  // where the batch holds what is not finite, if it does
};

}  // namespace

Trainer::Trainer(TrainerOptions options, Session session, std::shared_ptr<Workload> workload,
                 std::vector<Link*> links, Environment environment, TrainerCallbacks callbacks)
    : options_(std::move(options)),
      session_(std::move(session)),
      workload_(std::move(workload)),
      links_(std::move(links)),
      environment_(environment),
      callbacks_(std::move(callbacks)),
      alive_(std::make_shared<bool>(true)),
      copy_(std::make_shared<ParameterCopy>(session_, workload_->program->variables())) {}

Trainer::~Trainer() { *alive_ = false; }

void Trainer::Take(const Lease& lease) {
  leases_.push_back(lease);
  if (leases_.size() == 1) next_batch_ = lease.first_batch();
  Next();
}

void Trainer::Take(const EvaluationLease& lease) {
  evaluations_.push_back(lease);
  Next();
}

bool Trainer::Idle() const { return !busy_ && leases_.empty() && evaluations_.empty(); }

bool Trainer::WantsTask() const {
  if (drained_) return false;
  if (leases_.empty() && evaluations_.empty()) return true;
  // One lease ahead, asked for with the last batch, keeps a fast worker busy and costs a slow one
  // no more than the end of its split.
  return leases_.size() == 1 && evaluations_.empty() && next_batch_ + 1 >= leases_[0].end_batch();
}

void Trainer::Drain(std::function<void()> drained) {
  drained_ = std::move(drained);
  Next();
}

std::vector<uint64_t> Trainer::Holds() const {
  std::vector<uint64_t> ids;
  for (const Lease& lease : leases_) ids.push_back(lease.id());
  for (const EvaluationLease& lease : evaluations_) ids.push_back(lease.id());
  return ids;
}

StepCounters Trainer::TakeCounters() { return std::exchange(counters_, {}); }

void Trainer::Next() {
  if (busy_) return;
  if (drained_) {
    while (!leases_.empty()) EndLease(PROBLEM_DRAINED, "the worker leaves");
    return environment_.loop.Post(std::exchange(drained_, nullptr));
  }
  if (!leases_.empty()) {
    busy_ = true;
    StepLease();
  } else if (!evaluations_.empty()) {
    busy_ = true;
    StartEvaluation();
  }
  if (WantsTask()) callbacks_.wants_task();
}

void Trainer::StepLease() {
  const Lease& lease = leases_.front();
  BatchId batch;
  batch.set_epoch(lease.epoch());
  batch.set_split(lease.split());
  batch.set_batch(next_batch_);
  if (std::find(lease.rejected().begin(), lease.rejected().end(), next_batch_) !=
      lease.rejected().end()) {
    return Push(batch, /*rejected=*/true);
  }
  if (pulled_) return Compute(batch);
  StartExchange(nullptr, false, [this, batch] {
    if (!exchange_.error.ok()) {
      busy_ = false;
      return EndLease(PROBLEM_UNREACHABLE, Text(exchange_.error));
    }
    pulled_ = true;
    Compute(batch);
  });
}

void Trainer::Compute(const BatchId& batch) {
  const auto result = std::make_shared<ComputeResult>();
  environment_.executor.Run(
      [result, workload = workload_, copy = copy_, batch, end = leases_.front().end_batch(),
       key = BatchKey(session_.plan(), batch)] {
        FAILPOINT(
            absl::StrCat("worker.batch.", batch.epoch(), ".", batch.split(), ".", batch.batch())
                .c_str());
        const int64_t asked = TraceBegin();
        const absl::StatusOr<const Batch*> data = workload->feed->Get(batch, end);
        TraceEnd("wait for data", asked);
        result->data = data.status();
        if (!data.ok()) return;
        result->examples = (*data)->examples;
        const absl::StatusOr<double> loss =
            workload->program->ComputeGradients(**data, key, copy->values(), copy->gradients());
        result->model = loss.status();
        if (!loss.ok()) return;
        result->loss = *loss;
        if (!MUTANT("rejected_by_one_ps")) result->nonfinite = copy->NonFiniteGradient();
        if (!std::isfinite(*loss)) result->bad_input = FirstNotFinite(**data);
        workload->clip.Apply(copy->gradients());
      },
      [this, alive = alive_, result, batch] {
        if (!*alive) return;
        FAILPOINT("worker.computed");
        ++counters_.computed;
        if (!result->data.ok() || !result->model.ok()) {
          busy_ = false;
          const bool data = !result->data.ok();
          return EndLease(data ? PROBLEM_DATA : PROBLEM_SHAPE,
                          Text(data ? result->data : result->model));
        }
        if (!std::isfinite(result->loss) || result->nonfinite != nullptr) {
          busy_ = false;
          return EndLease(
              PROBLEM_NONFINITE,
              std::isfinite(result->loss)
                  ? absl::StrCat("the gradient of ", result->nonfinite->name(), " is not finite")
                  : absl::StrCat("the loss is ", result->loss,
                                 result->bad_input.empty() ? "" : "; " + result->bad_input));
        }
        counters_.loss_sum += result->loss;
        if (MUTANT("progress_believed")) {
          ++next_batch_;
          Report(false, PROBLEM_NONE, "");
          --next_batch_;
        }
        examples_ = result->examples;
        Push(batch, /*rejected=*/false);
      });
}

void Trainer::Push(const BatchId& batch, bool rejected) {
  StartExchange(&batch, rejected, [this, batch] { Pushed(batch); });
}

void Trainer::Pushed(const BatchId& batch) {
  busy_ = false;
  const Exchange& exchange = exchange_;
  const bool rejected = exchange.rejected;
  if (exchange.repeated) copy_->RenewGradients();
  if (!exchange.error.ok()) {
    pulled_ = false;
    const bool refused = absl::IsInvalidArgument(exchange.error);
    return EndLease(refused ? PROBLEM_SHAPE : PROBLEM_UNREACHABLE, Text(exchange.error));
  }
  FAILPOINT("worker.pushed");
  pulled_ = true;
  if (!rejected) {
    counters_.staleness_sum += exchange.outcome.staleness;
    if (exchange.outcome.applied) {
      counters_.samples += examples_;
    } else {
      ++counters_.duplicates;
    }
  }
  if (exchange.outcome.gap) {
    next_batch_ = std::min(next_batch_, exchange.outcome.next);
    return EndLease(PROBLEM_GAP, "a partition lacks an earlier batch");
  }
  // The ledgers may be ahead of this lease: another worker did the same split.
  next_batch_ = std::max(batch.batch() + 1, exchange.outcome.next);
  if (next_batch_ >= leases_.front().end_batch()) return EndLease(PROBLEM_NONE, "");
  Report(false, PROBLEM_NONE, "");
  Next();
}

void Trainer::Report(bool ended, Problem problem, const std::string& message) {
  LeaseReport report;
  report.set_lease(leases_.front().id());
  report.set_next(std::min(next_batch_, leases_.front().end_batch()));
  report.set_ended(ended);
  report.set_problem(problem);
  report.set_message(message);
  callbacks_.report(report);
}

void Trainer::EndLease(Problem problem, const std::string& message) {
  Report(true, problem, message);
  leases_.pop_front();
  if (!leases_.empty()) next_batch_ = leases_.front().first_batch();
  if (problem != PROBLEM_DRAINED) Next();
}

void Trainer::StartEvaluation() {
  const EvaluationLease& lease = evaluations_.front();
  if (evaluated_epoch_ == lease.epoch()) return RunEvaluation();
  StartExchange(nullptr, false, [this, epoch = lease.epoch()] {
    if (exchange_.error.ok()) {
      evaluated_epoch_ = epoch;
      return RunEvaluation();
    }
    EvaluationReport report;
    report.set_lease(evaluations_.front().id());
    report.set_problem(PROBLEM_UNREACHABLE);
    report.set_message(Text(exchange_.error));
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
      [report, workload = workload_, copy = copy_, lease = evaluations_.front(),
       batch = uint64_t{session_.plan().batch()}] {
        const absl::Status scored = Evaluate(*workload, copy->values(), lease.first_record(),
                                             lease.end_record(), batch, *report);
        if (scored.ok()) return;
        report->set_problem(PROBLEM_DATA);
        report->set_message(Text(scored));
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

// ---- one exchange with every ps

void Trainer::StartExchange(const BatchId* batch, bool rejected, std::function<void()> done) {
  evaluated_epoch_.reset();
  exchange_ = Exchange();
  ++exchange_id_;
  if (batch != nullptr) exchange_.batch = *batch;
  exchange_.rejected = rejected;
  exchange_.begun = TraceBegin();
  exchange_.outcome.next = std::numeric_limits<uint32_t>::max();
  exchange_.open = static_cast<uint32_t>(links_.size());
  exchange_.tries.resize(links_.size(), 0);
  exchange_.done = std::move(done);
  for (uint32_t ps = 0; ps < links_.size(); ++ps) Send(ps);
}

void Trainer::Send(uint32_t ps) {
  const BatchId* const batch = exchange_.batch.has_value() ? &*exchange_.batch : nullptr;
  ++exchange_.tries[ps];
  links_[ps]->Call(method::kExchange, copy_->Request(ps, options_.task, batch, exchange_.rejected),
                   options_.exchange_ms,
                   [this, alive = alive_, &loop = environment_.loop, ps,
                    id = exchange_id_](absl::StatusOr<absl::Cord> reply) {
                     loop.Post([this, alive, ps, id, reply = std::move(reply)]() mutable {
                       if (*alive && id == exchange_id_) Answered(ps, std::move(reply));
                     });
                   });
}

void Trainer::Answered(uint32_t ps, absl::StatusOr<absl::Cord> reply) {
  constexpr int64_t kTracks = 1000;  // a line of its own for each ps: they overlap
  TraceEnd(exchange_.batch.has_value() ? "push, pull" : "pull", exchange_.begun, kTracks + ps);
  absl::Status error = reply.status();
  if (reply.ok()) {
    FAILPOINT("worker.exchanged");
    const absl::StatusOr<ExchangeOutcome> outcome =
        copy_->TakeReply(ps, exchange_.batch.has_value(), *reply);
    error = outcome.status();
    if (outcome.ok()) {
      exchange_.outcome.next = std::min(exchange_.outcome.next, outcome->next);
      exchange_.outcome.applied |= outcome->applied;
      exchange_.outcome.gap |= outcome->gap;
      exchange_.outcome.staleness = std::max(exchange_.outcome.staleness, outcome->staleness);
    } else {
      return callbacks_.stale(Text(error));
    }
  }
  if (absl::IsAborted(error) || absl::IsFailedPrecondition(error)) {
    return callbacks_.stale(Text(error));
  }
  const bool again = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) ||
                     absl::IsResourceExhausted(error);
  if (again) {
    exchange_.repeated = true;
    if (exchange_.tries[ps] < options_.tries) {
      environment_.loop.PostAfter(kRetryMs, [this, alive = alive_, ps, id = exchange_id_] {
        if (*alive && id == exchange_id_) Send(ps);
      });
      return;
    }
  }
  if (!error.ok() && exchange_.error.ok()) exchange_.error = error;
  if (--exchange_.open > 0) return;
  const std::function<void()> done = std::move(exchange_.done);
  done();
}

}  // namespace paracord
