// Computes batches on the values at hand, pushes the batches one by one or as the sum of a run of
// lanes, and counts the outcomes.
#include <algorithm>
#include <utility>

#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "worker/problem.h"
#include "worker/trainer.h"

namespace paracord {
namespace {

double Seconds(int64_t ms) { return static_cast<double>(ms) / 1000; }

}  // namespace

void Trainer::Compute(const Wave& wave, std::function<void()> done) {
  rounds_.Stop();
  for (uint32_t place = 0; place < wave.size(); ++place) {
    wave[place]->step = parameters_->Begin(wave[place]->rows, place);
    // The residual of the gradient before is known once the exchange before is over.
    wave[place]->encodes = !(options_.keeps_residuals && (options_.overlap || devices_ > 1));
  }
  const bool adds = options_.adds_lanes && one_by_one_ != rounds_.StateFor(wave[0]->batch);
  environment_.executor.Run(
      [wave, adds, workload = workload_, figures = options_.figures] {
        const double begun = FigureSeconds();
        if (workload->devices == nullptr) {
          RunComputation(*wave[0], *workload);
        } else {
          RunLanes(wave, adds, *workload);
        }
        figures->compute_seconds.Observe(FigureSeconds() - begun);
      },
      gate_.Enter([this, wave, begun_ms = environment_.loop.NowMs(),
                   done = gate_.Enter(std::move(done))]() mutable {
        FAILPOINT("worker.computed");
        for (const auto& each : wave) each->took_ms = environment_.loop.NowMs() - begun_ms;
        options_.figures->computed += wave.size();
        parameters_->End();
        done();
      }));
}

void Trainer::Computed(const std::shared_ptr<Computation>& computation) {
  const auto count = [this](const Computation& each) {
    if (each.losses.count == 0) return;
    counters_.program.count += each.losses.count;
    counters_.program.last = each.losses.last;
  };
  count(*computation);
  for (const auto& lane : computation->run) count(*lane);
  if (computation->sum_failed) {
    counters_.duplicates += 1 + computation->run.size();
    return PushOneByOne(computation->batch);
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

// Encodes apart from computing, once the exchange before is over.
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
  under_way_.clear();
  const auto count = [this](const Computation& each) {
    ++counters_.computed;
    counters_.loss_sum += each.loss;
    counters_.compute_seconds += Seconds(each.took_ms);
    under_way_.push_back({each.examples, each.loss, each.metrics});
    bad_records_.Name(each.left_out, counters_.trained);
  };
  count(computation);
  for (const auto& lane : computation.run) count(*lane);
  rounds_.Computed(computation.took_ms);
  Push(computation.batch, &computation);
}

// A null `computation` rejects the batch.
void Trainer::Push(const BatchId& batch, const Computation* computation) {
  // In synchronous training the worker has pulled the state before the batch's round from every ps.
  // So all partitions have the batches of earlier rounds, and lanes at hand, which may have been
  // granted since the pull, move on to the batch's round.
  while (const auto done = options_.sync ? leases_.OfEarlierRound(batch) : std::nullopt) {
    PROBE("worker.lane.overtaken");
    leases_.GoTo(*done);
    leases_.SetNext(std::min(batch.batch(), leases_.current().end_batch()));
    leases_.used_up() ? Finish(PROBLEM_NONE, "") : Report(false, PROBLEM_NONE, "");
  }
  leases_.GoTo(batch);
  const bool rejected = computation == nullptr;
  const uint32_t lanes = rejected ? 1 : static_cast<uint32_t>(1 + computation->run.size());
  const std::vector<BatchId> following = NotComputed(lanes);
  const bool ahead = !rejected && MayComputeAhead(following);
  ExchangeOrder order{
      .batch = batch, .lanes = lanes, .rejected = rejected, .proof = leases_.Proofs(lanes)};
  order.leased = batch;
  order.lease_proof = leases_.current().proof();
  if (rejected) order.rejection = leases_.rejection();
  // A batch that is computed during the exchange has its rows already.
  order.rows = RowsFor({following.begin() + (ahead && tables_ ? 1 : 0), following.end()});
  order.state = options_.sync
                    ? rounds_.StateAfter(batch, leases_.After(lanes))
                    : rounds_.StateForAll(leases_.Following(computes_ahead() ? 2 : 1, lanes));
  if (options_.clips_rounds) awaits_ = rounds_.StateAfter(batch, std::nullopt);
  if (lanes > 1) PROBE("worker.run");
  const std::shared_ptr<StepArrays> step = rejected ? nullptr : computation->step;
  Exchange(std::move(order), step, [this, batch, lanes, rejected](const ExchangeResult& result) {
    Pushed(batch, lanes, rejected, result);
  });
  if (tables_) LookAhead();
  if (ahead) ComputeAhead(following[0]);
}

// The sum of a run has overwritten the gradient of the first lane. So all lanes of the run are
// computed again, and each is pushed alone.
void Trainer::PushOneByOne(const BatchId& batch) {
  PROBE("worker.run.one_by_one");
  one_by_one_ = rounds_.StateFor(batch);
  counters_.duplicates += computed_.size();
  computed_.clear();
  busy_ = false;
  Next();
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

void Trainer::Pushed(const BatchId& batch, uint32_t lanes, bool rejected,
                     const ExchangeResult& result) {
  if (!result.error.ok()) {
    // A single lane may be at fault, and pushes one by one will name it.
    const Problem problem = ProblemOfExchange(result.error, /*pushed=*/true);
    if (lanes > 1 && problem == PROBLEM_SHAPE) return PushOneByOne(batch);
    return FailExchange(result.error, /*pushed=*/true);
  }
  busy_ = false;
  FAILPOINT("worker.pushed");
  pulled_ = !result.outcome.waits;
  if (result.outcome.partly) {
    PROBE("worker.run.partly");
    counters_.duplicates += lanes;
    return PushOneByOne(batch);
  }
  if (!rejected) Count(lanes, result.outcome);
  BatchId lane = batch;
  for (uint32_t i = 0; i < lanes; ++i) {
    lane.set_split(batch.split() + i);
    if (!rejected && !result.outcome.gap) counters_.trained.Add(plan_, lane, under_way_[i]);
    if (leases_.GoTo(lane)) Progress(result.outcome);
  }
  Next();
}

void Trainer::Count(uint32_t lanes, const ExchangeOutcome& outcome) {
  counters_.staleness_sum += outcome.staleness * lanes;
  options_.figures->staleness.Observe(static_cast<double>(outcome.staleness));
  if (outcome.applied) {
    for (const TrainedBatch& lane : under_way_) {
      counters_.samples += lane.examples;
      options_.figures->samples += lane.examples;
    }
  } else {
    counters_.duplicates += lanes;
    options_.figures->duplicates += lanes;
  }
}

// Moves the current lease on: its next batch was pushed.
void Trainer::Progress(const ExchangeOutcome& outcome) {
  if (outcome.gap) {
    leases_.SetNext(std::min(leases_.next(), outcome.next));
    return Finish(PROBLEM_GAP, "a partition lacks an earlier batch");
  }
  // The ledgers may be ahead of the lease, if another worker had the split.
  leases_.SetNext(std::max(leases_.next() + 1, outcome.next));
  if (leases_.used_up()) return Finish(PROBLEM_NONE, "");
  Report(false, PROBLEM_NONE, "");
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

void Trainer::Finish(Problem problem, const std::string& message) {
  Report(true, problem, message);
  if (problem != PROBLEM_NONE) DropAhead();
  if (problem != PROBLEM_NONE && problem != PROBLEM_DRAINED) ++options_.figures->failed;
  leases_.Pop();
  if (leases_.empty()) rounds_.Stop();
}

void Trainer::EndLease(Problem problem, const std::string& message) {
  Finish(problem, message);
  if (problem != PROBLEM_DRAINED && !lost_.has_value()) Next();
}

void Trainer::FailExchange(const absl::Status& error, bool pushed) {
  const Problem problem = ProblemOfExchange(error, pushed);
  if (problem == PROBLEM_UNREACHABLE && plan_.lanes() != 0) return LoseParameters(Text(error));
  if (pushed) awaits_.reset();
  if (problem == PROBLEM_GAP) return Outrun(Text(error));
  busy_ = false;
  EndLease(problem, Text(error));
}

}  // namespace paracord
