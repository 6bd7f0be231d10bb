#include "worker/trainer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "data/batch_plan.h"
#include "exchange/lane_sum.h"
#include "worker/problem.h"

namespace paracord {
namespace {

constexpr int64_t kLostMs = 200;  // until ps that could not be reached are asked again
// A ps that lets a pull wait does so for longer; one that does not is not asked without end.
constexpr int64_t kWaitMsMin = 20;

double Seconds(int64_t ms) { return static_cast<double>(ms) / 1000; }

}  // namespace

Trainer::Trainer(TrainerOptions options, DataPlan plan, std::shared_ptr<Workload> workload,
                 std::unique_ptr<ParameterSession> parameters, Environment environment,
                 TrainerCallbacks callbacks)
    : options_(options),
      plan_(std::move(plan)),
      workload_(std::move(workload)),
      parameters_(std::move(parameters)),
      environment_(environment),
      callbacks_(std::move(callbacks)),
      tables_(std::ranges::any_of(workload_->program->variables(),
                                  [](const VariableSpec& v) { return v.has_table(); })),
      leases_(plan_),
      rounds_(plan_, options_.staleness, options_.sync, options_.backup) {
  busy_ = true;
  parameters_->Open([this] {
    busy_ = false;
    Next();
  });
}

void Trainer::Take(const Lease& lease) {
  leases_.Add(lease);
  Next();
}

void Trainer::Take(const EvaluationLease& lease) {
  evaluations_.push_back(lease);
  Next();
}

bool Trainer::Idle() const {
  return (!busy_ || lost_.has_value()) && leases_.empty() && evaluations_.empty();
}

bool Trainer::WantsTask() const {
  if (drained_ || lost_.has_value()) return false;
  if (leases_.empty() && evaluations_.empty()) return true;
  // One lease ahead, asked for with the last batch, keeps a fast worker busy and costs a slow one
  // no more than the end of its split. With tables it is asked for a batch earlier, so that the
  // rows of its first batch come with the exchange of the last one. Who waits for the lanes of
  // others computes those that nobody has.
  return evaluations_.empty() && (rounds_.waits() || leases_.EndsWithin(tables_ ? 2 : 1));
}

void Trainer::Drain(std::function<void()> drained) {
  drained_ = std::move(drained);
  Next();
}

std::vector<uint64_t> Trainer::Holds() const {
  std::vector<uint64_t> ids = leases_.Ids();
  for (const EvaluationLease& lease : evaluations_) ids.push_back(lease.id());
  return ids;
}

std::string Trainer::WaitsFor() const {
  std::string ps = parameters_->WaitsFor();
  return ps.empty() ? rounds_.WaitsFor() : ps;
}

StepCounters Trainer::TakeCounters() { return std::exchange(counters_, {}); }

void Trainer::Next() {
  if (lost_.has_value()) GiveBackAll();
  if (busy_ && !lost_.has_value()) return;
  if (drained_) {
    while (!leases_.empty()) EndLease(PROBLEM_DRAINED, "the worker leaves");
    return environment_.loop.Post(std::exchange(drained_, nullptr));
  }
  if (busy_) return;
  if (!leases_.empty()) {
    busy_ = true;
    StepLease();
  } else if (awaits_.has_value()) {
    busy_ = true;
    AwaitRound();
  } else if (!evaluations_.empty()) {
    busy_ = true;
    StartEvaluation();
  }
  if (WantsTask()) callbacks_.wants_task();
}

void Trainer::StepLease() {
  leases_.Choose();
  if (leases_.used_up()) {
    busy_ = false;
    return EndLease(PROBLEM_NONE, "");
  }
  const BatchId batch = leases_.batch();
  if (ahead_ != nullptr) {
    if (SameBatch(ahead_->batch, batch)) return Computed(std::exchange(ahead_, nullptr));
    DropAhead();
  }
  if (leases_.rejected()) {
    const auto reject = [this, batch] { Push(batch, nullptr); };
    return options_.sync ? WithValues(batch, nullptr, reject) : reject();
  }
  const auto computation = std::make_shared<Computation>();
  computation->batch = batch;
  if (options_.sync) {
    const uint32_t examples = BatchExamples(plan_, batch.split(), batch.batch());
    computation->factor = LaneFactor(examples, plan_.batch());
  }
  computation->upcoming = leases_.Upcoming(kUpcomingMax);
  computation->rows = rows_ahead_.Find(batch);
  tables_ && computation->rows == nullptr ? Look(computation) : PullAndCompute(computation);
}

// Finds the rows that a batch reads: nobody has looked at the first batch before, nor at one after
// a gap.
void Trainer::Look(const std::shared_ptr<Computation>& computation) {
  computation->next = leases_.Following(batches_ahead());
  environment_.executor.Run(
      [computation, workload = workload_] { LookAtRows(*computation, *workload); },
      gate_.Enter([this, computation] {
        std::string message;
        const Problem problem = computation->problem(message);
        if (problem != PROBLEM_NONE) return GiveUp(*computation, problem, message);
        rows_ahead_.Add(computation->batch, computation->rows);
        Learn(*computation);
        PullAndCompute(computation);
      }));
}

// While the exchange is under way: which rows the batches after the next one read. It is known when
// the next one is computed.
void Trainer::LookAhead() {
  const auto look = std::make_shared<Computation>();
  for (const BatchId& next : leases_.Following(batches_ahead() + 1)) {
    if (rows_ahead_.Find(next) == nullptr) look->next.push_back(next);
  }
  if (look->next.empty()) return;
  environment_.executor.Run([look, workload = workload_] { LookAtNext(*look, *workload); },
                            gate_.Enter([this, look] { Learn(*look); }));
}

void Trainer::Learn(const Computation& computation) {
  for (size_t i = 0; i < computation.next_rows.size(); ++i) {
    if (computation.next_rows[i] == nullptr) continue;
    rows_ahead_.Add(computation.next[i], computation.next_rows[i]);
  }
}

void Trainer::PullAndCompute(const std::shared_ptr<Computation>& computation) {
  WithValues(computation->batch, computation->rows, [this, computation] {
    Compute(computation, [this, computation] { Computed(computation); });
  });
}

// Pulls what the batch, which is next, needs, unless it is there, and then goes on. `rows`: of
// tables, that it reads; null: none.
void Trainer::WithValues(const BatchId& batch, const SharedRows& rows, std::function<void()> then) {
  if (pulled_ && rounds_.Reached(batch) && (rows == nullptr || parameters_->Has(rows))) {
    return then();
  }
  ExchangeOrder order;
  order.proof = leases_.current().proof();
  order.leased = batch;
  std::vector<BatchId> batches{batch};
  if (options_.overlap) {
    std::ranges::copy(leases_.Following(1), std::back_inserter(batches));
  }
  order.rows = RowsFor(batches);
  order.state = rounds_.StateForAll(batches);
  const auto failed = [this](const absl::Status& error) { FailExchange(error, /*pushed=*/false); };
  Ask(std::move(order), failed, std::move(then));
}

// Pulls once, and goes on if the state is there; else Next asks again, unless there is something
// else to do by then.
void Trainer::Ask(ExchangeOrder order, std::function<void(const absl::Status&)> failed,
                  std::function<void()> then) {
  const int64_t begun_ms = environment_.loop.NowMs();
  Exchange(std::move(order), nullptr,
           [this, failed = std::move(failed), then = std::move(then),
            begun_ms](const ExchangeResult& result) {
             if (!result.error.ok()) return failed(result.error);
             pulled_ = !result.outcome.waits;
             if (pulled_) return then();
             PROBE("worker.waits");
             busy_ = false;
             const bool waited = environment_.loop.NowMs() - begun_ms >= kWaitMsMin;
             if (waited || result.outcome.carries_norms) return Next();
             environment_.loop.PostAfter(kWaitMsMin, gate_.Enter([this] { Next(); }));
           });
}

// Nobody else may be left to carry the norms of the round that was pushed last.
void Trainer::AwaitRound() {
  ExchangeOrder order;
  order.state = awaits_;
  const auto failed = [this](const absl::Status& error) {
    awaits_.reset();  // somebody else is further, or else the round's lanes are granted again
    if (ProblemOfExchange(error, /*pushed=*/false) == PROBLEM_UNREACHABLE) {
      return LoseParameters(Text(error));
    }
    busy_ = false;
    Next();
  };
  Ask(std::move(order), failed, [this] {
    busy_ = false;
    Next();
  });
}

void Trainer::Compute(const std::shared_ptr<Computation>& computation, std::function<void()> done) {
  rounds_.Stop();
  computation->step = parameters_->Begin(computation->rows);
  // The residual of the gradient before is only known when its exchange is over.
  computation->encodes = !(options_.overlap && options_.keeps_residuals);
  environment_.executor.Run(
      [computation, workload = workload_, figures = options_.figures,
       key = BatchKey(plan_, computation->batch)] {
        const double begun = FigureSeconds();
        RunComputation(*computation, *workload, key);
        figures->compute_seconds.Observe(FigureSeconds() - begun);
      },
      gate_.Enter([this, computation, begun_ms = environment_.loop.NowMs(),
                   done = gate_.Enter(std::move(done))]() mutable {
        FAILPOINT("worker.computed");
        computation->took_ms = environment_.loop.NowMs() - begun_ms;
        ++options_.figures->computed;
        parameters_->End();
        done();
      }));
}

void Trainer::Computed(const std::shared_ptr<Computation>& computation) {
  if (computation->losses.count > 0) {
    counters_.program.count += computation->losses.count;
    counters_.program.last = computation->losses.last;
  }
  std::string message;
  const Problem problem = computation->problem(message);
  if (problem != PROBLEM_NONE) return GiveUp(*computation, problem, message);
  computation->encodes ? Ready(*computation) : Encode(computation);
}

void Trainer::GiveUp(const Computation& computation, Problem problem, const std::string& message) {
  if (computation.step != nullptr) parameters_->GiveUp(*computation.step);
  busy_ = false;
  EndLease(problem, message);
}

// Encodes as a step of its own, because the exchange before had to be over.
void Trainer::Encode(const std::shared_ptr<Computation>& computation) {
  environment_.executor.Run(
      [computation, workload = workload_] { EncodeComputation(*computation, *workload); },
      gate_.Enter([this, computation] {
        std::string message;
        const Problem problem = computation->problem(message);
        if (problem == PROBLEM_NONE) return Ready(*computation);
        GiveUp(*computation, problem, message + " when it is compressed");
      }));
}

void Trainer::Ready(const Computation& computation) {
  ++counters_.computed;
  counters_.loss_sum += computation.loss;
  rounds_.Computed(computation.took_ms);
  if (plan_.lanes() != 0) counters_.compute_seconds += Seconds(computation.took_ms);
  under_way_ = {computation.examples, computation.loss, computation.metrics};
  bad_records_.Name(computation.left_out, counters_.trained);
  Push(computation.batch, computation.step);
}

// A batch without a step is rejected.
void Trainer::Push(const BatchId& batch, const std::shared_ptr<StepArrays>& step) {
  const bool rejected = step == nullptr;
  const std::vector<BatchId> following = leases_.Following(batches_ahead());
  const bool ahead = !rejected && MayComputeAhead(following);
  ExchangeOrder order{
      .batch = batch, .rejected = rejected, .proof = leases_.current().proof(), .leased = batch};
  if (rejected) order.rejection = leases_.rejection();
  // The rows of a batch that is computed meanwhile are there.
  order.rows = RowsFor({following.begin() + (ahead && tables_ ? 1 : 0), following.end()});
  order.state =
      options_.sync ? rounds_.StateAfter(batch, leases_.After()) : rounds_.StateForAll(following);
  if (options_.clips_rounds) awaits_ = rounds_.StateAfter(batch, std::nullopt);
  Exchange(std::move(order), step, [this, batch, rejected](const ExchangeResult& result) {
    Pushed(batch, rejected, result);
  });
  if (tables_) LookAhead();
  if (ahead) ComputeAhead(following[0]);
}

void Trainer::Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step,
                       ParameterSession::DoneFn done) {
  evaluated_epoch_.reset();
  const std::optional<uint64_t> state = order.state;
  order.wait_ms = rounds_.Ask(state, environment_.loop.NowMs());
  parameters_->Exchange(std::move(order), step,
                        [this, state, begun = FigureSeconds(), begun_ms = environment_.loop.NowMs(),
                         done = std::move(done)](const ExchangeResult& result) {
                          options_.figures->exchange_seconds.Observe(FigureSeconds() - begun);
                          if (result.error.ok()) {
                            if (!result.outcome.waits && state >= awaits_) awaits_.reset();
                            const int64_t waited_ms = rounds_.Answered(
                                state, result.outcome, environment_.loop.NowMs() - begun_ms);
                            options_.figures->waited_ms += static_cast<uint64_t>(waited_ms);
                            counters_.waited_seconds += Seconds(waited_ms);
                          } else {
                            pulled_ = false;
                          }
                          done(result);
                        });
}

// ---- the next batch, while this one is exchanged

std::vector<SharedRows> Trainer::RowsFor(const std::vector<BatchId>& batches) const {
  std::vector<SharedRows> rows;
  for (const BatchId& batch : batches) {
    if (SharedRows known = rows_ahead_.Find(batch); known != nullptr) rows.push_back(known);
  }
  return rows;
}

bool Trainer::MayComputeAhead(const std::vector<BatchId>& following) const {
  if (!options_.overlap || following.empty() || drained_) return false;
  if (!rounds_.Reached(following[0])) return false;
  const SharedRows rows = rows_ahead_.Find(following[0]);
  return !tables_ || (rows != nullptr && parameters_->Has(rows));
}

void Trainer::ComputeAhead(const BatchId& batch) {
  ahead_ = std::make_shared<Computation>();
  ahead_->batch = batch;
  ahead_->rows = rows_ahead_.Find(batch);
  ahead_->upcoming = leases_.Upcoming(1 + kUpcomingMax);
  ahead_->upcoming.erase(ahead_->upcoming.begin());  // the batch itself
  PROBE("worker.ahead");
  Compute(ahead_, [] {});
}

void Trainer::DropAhead() {
  if (ahead_ == nullptr) return;
  PROBE("worker.ahead.dropped");
  ++counters_.duplicates;
  ahead_.reset();
}

void Trainer::Pushed(const BatchId& batch, bool rejected, const ExchangeResult& result) {
  if (!result.error.ok()) return FailExchange(result.error, /*pushed=*/true);
  busy_ = false;
  FAILPOINT("worker.pushed");
  pulled_ = !result.outcome.waits;
  if (!rejected) {
    counters_.staleness_sum += result.outcome.staleness;
    options_.figures->staleness.Observe(static_cast<double>(result.outcome.staleness));
    if (!result.outcome.gap) counters_.trained.Add(plan_, batch, under_way_);
    if (result.outcome.applied) {
      counters_.samples += under_way_.examples;
      options_.figures->samples += under_way_.examples;
    } else {
      ++counters_.duplicates;
      ++options_.figures->duplicates;
    }
  }
  if (result.outcome.gap) {
    leases_.SetNext(std::min(leases_.next(), result.outcome.next));
    return EndLease(PROBLEM_GAP, "a partition lacks an earlier batch");
  }
  // The ledgers may be ahead of this lease: another worker did the same split.
  leases_.SetNext(std::max(batch.batch() + 1, result.outcome.next));
  if (leases_.used_up()) return EndLease(PROBLEM_NONE, "");
  Report(false, PROBLEM_NONE, "");
  Next();
}

void Trainer::Report(bool ended, Problem problem, const std::string& message) {
  LeaseReport report;
  report.set_lease(leases_.current().id());
  report.set_next(std::min(leases_.next(), leases_.current().end_batch()));
  report.set_ended(ended);
  report.set_problem(problem);
  report.set_message(Sendable(message));
  callbacks_.report(report);
}

void Trainer::EndLease(Problem problem, const std::string& message) {
  Report(true, problem, message);
  if (problem != PROBLEM_NONE) DropAhead();
  if (problem != PROBLEM_NONE && problem != PROBLEM_DRAINED) ++options_.figures->failed;
  leases_.Pop();
  if (leases_.empty()) rounds_.Stop();
  if (problem != PROBLEM_DRAINED && !lost_.has_value()) Next();
}

void Trainer::FailExchange(const absl::Status& error, bool pushed) {
  const Problem problem = ProblemOfExchange(error, pushed);
  if (problem == PROBLEM_UNREACHABLE && plan_.lanes() != 0) return LoseParameters(Text(error));
  busy_ = false;
  if (pushed) awaits_.reset();
  if (problem == PROBLEM_GAP) PROBE("worker.outrun");
  EndLease(problem, Text(error));
}

// ---- with lanes, ps that cannot be reached

// Each lane here would keep everybody waiting for as long as it takes to find that a ps does not
// answer. So all go back, and none is wanted until every ps has answered.
void Trainer::LoseParameters(const std::string& message) {
  PROBE("worker.lost");
  lost_ = message;
  awaits_.reset();
  GiveBackAll();
  environment_.loop.PostAfter(kLostMs, gate_.Enter([this] { AskWhetherTheyAnswer(); }));
  Next();  // it may be about to leave
}

void Trainer::GiveBackAll() {
  while (!leases_.empty()) EndLease(PROBLEM_UNREACHABLE, *lost_);
  for (const EvaluationLease& lease : std::exchange(evaluations_, {})) {
    EvaluationReport report;
    report.set_lease(lease.id());
    report.set_problem(PROBLEM_UNREACHABLE);
    report.set_message(Sendable(*lost_));
    callbacks_.evaluated(report);
  }
}

void Trainer::AskWhetherTheyAnswer() {
  Exchange({}, nullptr, [this](const ExchangeResult& result) {
    if (!result.error.ok()) {
      environment_.loop.PostAfter(kLostMs, gate_.Enter([this] { AskWhetherTheyAnswer(); }));
      return;
    }
    lost_.reset();
    pulled_ = true;
    busy_ = false;
    Next();
  });
}

}  // namespace paracord
