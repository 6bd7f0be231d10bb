#include "worker/trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "data/batch_plan.h"
#include "exchange/reply_landing.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kRetryMs = 100;
constexpr int64_t kSlowMs = 1500;         // of an exchange, until it is said whom it waits for
constexpr int64_t kTracks = 1000;         // of the trace: a line for each ps, because they overlap
constexpr uint32_t kNoRoomDoublings = 4;  // of kRetryMs, while a ps has no room

bool IsRejected(const Lease& lease, uint32_t batch) {
  return std::ranges::find(lease.rejected(), batch) != lease.rejected().end();
}

BatchId BatchOf(const Lease& lease, uint32_t number) {
  BatchId batch;
  batch.set_epoch(lease.epoch());
  batch.set_split(lease.split());
  batch.set_batch(number);
  return batch;
}

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
      // A norm needs all gradients, a residual the exchange before; with overlap a push keeps
      // nobody waiting.
      pushes_early_(!options_.overlap && !options_.transfer.keeps_residuals() &&
                    !workload_->clip.on() && !MUTANT("rejected_by_one_ps")),
      early_pauses_(std::make_shared<EarlyPushPauses>(links_.size())) {
  MakeCopy();
}

Trainer::~Trainer() { *alive_ = false; }

// Its pages come into being: where there are many that takes longer than the loop may be silent.
void Trainer::MakeCopy() {
  busy_ = true;
  const auto made = std::make_shared<std::shared_ptr<ParameterCopy>>();
  environment_.executor.Run(
      [made, session = session_, workload = workload_, transfer = options_.transfer] {
        const GradientProgram& program = *workload->program;
        const ValuesIn memory = program.host_memory() ? ValuesIn::kOrdinary : ValuesIn::kShared;
        *made = std::make_shared<ParameterCopy>(session, program.variables(), transfer, memory);
        (*made)->PrepareGradients(0);  // the other one's come with the first batch
      },
      [this, alive = alive_, made] {
        if (!*alive) return;
        copy_ = std::move(*made);
        busy_ = false;
        Next();
      });
}

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
  if (next_batch_ >= lease.end_batch()) {  // nothing is left of it
    busy_ = false;
    return EndLease(PROBLEM_NONE, "");
  }
  const BatchId batch = BatchOf(lease, next_batch_);
  if (ahead_ != nullptr) {
    if (SameBatch(ahead_->batch, batch)) return Computed(std::exchange(ahead_, nullptr));
    DropAhead();
  }
  if (IsRejected(lease, next_batch_)) return Push(batch, /*rejected=*/true, /*buffer=*/0, nullptr);
  const auto computation = std::make_shared<Computation>();
  computation->batch = batch;
  computation->end_batch = lease.end_batch();
  const auto compute = [this, computation] {
    Compute(computation, [this, computation] { Computed(computation); });
  };
  if (pulled_) return compute();
  StartExchange({}, [this, compute] {
    if (!exchange_.error.ok()) {
      busy_ = false;
      return EndLease(PROBLEM_UNREACHABLE, Text(exchange_.error));
    }
    pulled_ = true;
    compute();
  });
}

void Trainer::Compute(const std::shared_ptr<Computation>& computation, std::function<void()> done) {
  copy_->BeginBatch(computation->buffer);
  if (pushes_early_) {
    computation->early = std::make_shared<EarlyPush>(
        EarlyPushOptions{options_.task, options_.exchange_ms, options_.early_push_bytes}, copy_,
        computation->buffer, links_, environment_, alive_, early_pauses_);
  }
  // What was not sent of the gradient before is only known when its exchange is over.
  computation->encodes = !(options_.overlap && options_.transfer.keeps_residuals());
  environment_.executor.Run(
      [computation, workload = workload_, copy = copy_,
       key = BatchKey(session_.plan(), computation->batch)] {
        RunComputation(*computation, *workload, *copy, key);
      },
      [this, alive = alive_, done = std::move(done)] {
        if (!*alive) return;
        FAILPOINT("worker.computed");
        ++counters_.computed;
        done();
      });
}

void Trainer::Computed(const std::shared_ptr<Computation>& computation) {
  std::string message;
  const Problem problem = computation->problem(message);
  if (problem != PROBLEM_NONE) return GiveUp(*computation, problem, message);
  computation->encodes ? Ready(*computation) : Encode(computation);
}

void Trainer::GiveUp(const Computation& computation, Problem problem, const std::string& message) {
  // Of what was sent early some may be under way.
  if (computation.early != nullptr && computation.early->any_sent()) {
    PROBE("worker.early_push.given_up");
    copy_->GiveUpGradients(computation.buffer);
  }
  busy_ = false;
  EndLease(problem, message);
}

// As a step of its own, because the exchange before had to be over.
void Trainer::Encode(const std::shared_ptr<Computation>& computation) {
  environment_.executor.Run([computation, workload = workload_,
                             copy = copy_] { EncodeComputation(*computation, *workload, *copy); },
                            [this, alive = alive_, computation] {
                              if (!*alive) return;
                              std::string message;
                              const Problem problem = computation->problem(message);
                              if (problem == PROBLEM_NONE) return Ready(*computation);
                              GiveUp(*computation, problem, message + " when it is compressed");
                            });
}

void Trainer::Ready(const Computation& computation) {
  counters_.loss_sum += computation.loss;
  if (MUTANT("progress_believed")) {
    ++next_batch_;
    Report(false, PROBLEM_NONE, "");
    --next_batch_;
  }
  examples_ = computation.examples;
  Push(computation.batch, /*rejected=*/false, computation.buffer, computation.early);
}

void Trainer::Push(const BatchId& batch, bool rejected, uint32_t buffer,
                   std::shared_ptr<EarlyPush> early) {
  StartExchange(
      {.batch = batch, .rejected = rejected, .exact = false, .buffer = buffer},
      [this, batch] { Pushed(batch); }, std::move(early));
  if (options_.overlap && !rejected) ComputeAhead();
}

// ---- the next batch, while this one is exchanged

// Of the same lease, or the first of the next one; none if it is not to be computed.
std::optional<BatchId> Trainer::BatchAfter(const BatchId& batch) const {
  const bool last = batch.batch() + 1 >= leases_.front().end_batch();
  if (last && leases_.size() < 2) return std::nullopt;
  const Lease& lease = last ? leases_[1] : leases_.front();
  const uint32_t number = last ? lease.first_batch() : batch.batch() + 1;
  if (number >= lease.end_batch() || IsRejected(lease, number)) return std::nullopt;
  return BatchOf(lease, number);
}

void Trainer::ComputeAhead() {
  const std::optional<BatchId> next = BatchAfter(*exchange_.order.batch);
  if (!next.has_value() || drained_) return;
  const bool same_lease = next->split() == leases_.front().split();
  ahead_ = std::make_shared<Computation>();
  ahead_->batch = *next;
  ahead_->end_batch = (same_lease ? leases_.front() : leases_[1]).end_batch();
  ahead_->buffer = 1 - exchange_.order.buffer;
  computing_ahead_ = true;
  PROBE("worker.ahead");
  Compute(ahead_, [this] { ComputedAhead(); });
}

// Nobody reads the values now: what came back meanwhile takes their place.
void Trainer::ComputedAhead() {
  computing_ahead_ = false;
  if (exchange_.done == nullptr) return;
  const bool over = exchange_.open == 0;
  if (over) return FinishExchange();
  for (auto& [ps, reply] : std::exchange(exchange_.parked, {})) Answered(ps, std::move(reply));
}

void Trainer::DropAhead() {
  if (ahead_ == nullptr) return;
  PROBE("worker.ahead.dropped");
  ++counters_.duplicates;
  ahead_.reset();
}

void Trainer::Pushed(const BatchId& batch) {
  busy_ = false;
  const Exchange& exchange = exchange_;
  const bool rejected = exchange.order.rejected;
  const bool refused_early = exchange.early != nullptr && exchange.early->any_refused();
  if (exchange.repeated || refused_early) copy_->GiveUpGradients(exchange.order.buffer);
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
  report.set_message(Sendable(message));
  callbacks_.report(report);
}

void Trainer::EndLease(Problem problem, const std::string& message) {
  Report(true, problem, message);
  if (problem != PROBLEM_NONE) DropAhead();
  leases_.pop_front();
  if (!leases_.empty()) next_batch_ = leases_.front().first_batch();
  if (problem != PROBLEM_DRAINED) Next();
}

// ---- one exchange with every ps

void Trainer::StartExchange(ExchangeOrder order, std::function<void()> done,
                            std::shared_ptr<EarlyPush> early) {
  evaluated_epoch_.reset();
  exchange_ = Exchange();
  ++exchange_id_;
  exchange_.order = std::move(order);
  exchange_.early = std::move(early);
  exchange_.outcome.next = std::numeric_limits<uint32_t>::max();
  exchange_.open = static_cast<uint32_t>(links_.size());
  exchange_.tries.resize(links_.size());
  exchange_.done = std::move(done);
  for (uint32_t ps = 0; ps < links_.size(); ++ps) {
    exchange_.tries[ps].first_sent_ms = environment_.loop.NowMs();
    Send(ps);
  }
}

std::string Trainer::WaitsFor() const {
  std::string text;
  for (size_t ps = 0; exchange_.open > 0 && ps < exchange_.tries.size(); ++ps) {
    const PsTries& tries = exchange_.tries[ps];
    const int64_t waited_ms = environment_.loop.NowMs() - tries.first_sent_ms;
    if (tries.answered || waited_ms < kSlowMs) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", "ps:", ps, " for ", waited_ms / 1000, " s (",
                    tries.problem.empty() ? "no answer yet" : tries.problem, ")");
  }
  return text;
}

void Trainer::Send(uint32_t ps) {
  // Repeated, it carries all itself: what was sent early is used once, if it ever came.
  const bool first = exchange_.tries[ps].sent++ == 0;
  const StagedGradients* const staged =
      first && exchange_.early != nullptr ? exchange_.early->For(ps) : nullptr;
  exchange_.tries[ps].staged = staged != nullptr;
  exchange_.tries[ps].mapped = links_[ps]->maps();
  exchange_.tries[ps].begun = TraceBegin();
  const auto answering = std::make_shared<std::atomic<int64_t>>(kTraceOff);
  exchange_.tries[ps].answering = answering;
  const auto answers = [answering] {
    int64_t never = kTraceOff;
    answering->compare_exchange_strong(never, TraceBegin());
  };
  // With overlap the values may be read while they come.
  std::shared_ptr<Landing> landing = MakeExchangeLanding(
      copy_->ReplyBytesMax(ps, exchange_.order),
      [copy = copy_, ps, order = exchange_.order, overlap = options_.overlap, answers](
          uint32_t partition, uint64_t offset, uint64_t bytes) {
        answers();
        return overlap ? nullptr : copy->PlaceOf(ps, order, partition, offset, bytes);
      });
  links_[ps]->CallInto(method::kExchange,
                       copy_->Request(ps, options_.task, exchange_.order, staged),
                       options_.exchange_ms, std::move(landing),
                       [this, alive = alive_, &loop = environment_.loop, ps, id = exchange_id_,
                        answers](absl::StatusOr<absl::Cord> reply) {
                         answers();
                         loop.Post([this, alive, ps, id, reply = std::move(reply)]() mutable {
                           if (*alive && id == exchange_id_) Answered(ps, std::move(reply));
                         });
                       });
}

void Trainer::Answered(uint32_t ps, absl::StatusOr<absl::Cord> reply) {
  if (reply.ok() && computing_ahead_) {
    exchange_.parked.emplace_back(ps, *std::move(reply));
    return;
  }
  const bool pushed = exchange_.order.batch.has_value();
  absl::Status error = reply.status();
  TracePush(ps);
  if (reply.ok()) {
    FAILPOINT("worker.exchanged");
    const PsTries& tries = exchange_.tries[ps];
    const absl::StatusOr<ExchangeOutcome> outcome =
        copy_->TakeReply(ps, exchange_.order, tries.sent > 1, *reply,
                         [&] { return !tries.mapped || links_[ps]->intact(); });
    TracePull(ps);
    error = outcome.status();
    if (outcome.ok()) {
      exchange_.outcome.next = std::min(exchange_.outcome.next, outcome->next);
      exchange_.outcome.applied |= outcome->applied;
      exchange_.outcome.gap |= outcome->gap;
      exchange_.outcome.staleness = std::max(exchange_.outcome.staleness, outcome->staleness);
    } else if (!absl::IsUnavailable(error)) {
      return callbacks_.stale(Text(error));
    }
  }
  if (absl::IsNotFound(error) && exchange_.tries[ps].staged) {
    // Nothing has changed there, and this was no try.
    exchange_.early->Refused(ps);
    --exchange_.tries[ps].sent;
    return Send(ps);
  }
  if (absl::IsAborted(error) || absl::IsFailedPrecondition(error)) {
    return callbacks_.stale(Text(error));
  }
  if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) copy_->ForgetValues(ps);
  const bool again = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) ||
                     absl::IsResourceExhausted(error);
  if (again) {
    exchange_.repeated = true;
    exchange_.tries[ps].problem = Text(error);
    if (const auto after_ms = RetryAfter(exchange_.tries[ps], error)) {
      environment_.loop.PostAfter(*after_ms, [this, alive = alive_, ps, id = exchange_id_] {
        if (*alive && id == exchange_id_) Send(ps);
      });
      return;
    }
  }
  exchange_.tries[ps].answered = true;
  if (!error.ok() && exchange_.error.ok()) exchange_.error = error;
  if (!error.ok()) pulled_ = false;
  // Refused whole, it has changed nothing there; otherwise nobody knows.
  if (!error.ok() && pushed && !absl::IsInvalidArgument(error)) copy_->ForgetResiduals(ps);
  if (--exchange_.open == 0 && !computing_ahead_) FinishExchange();
}

void Trainer::TracePush(uint32_t ps) const {
  const PsTries& tries = exchange_.tries[ps];
  if (!exchange_.order.batch.has_value() || tries.begun == kTraceOff) return;
  TraceDone("push", tries.begun, *tries.answering, kTracks + ps);
}

void Trainer::TracePull(uint32_t ps) const {
  const PsTries& tries = exchange_.tries[ps];
  if (tries.begun == kTraceOff) return;
  const bool pushed = exchange_.order.batch.has_value();
  TraceEnd("pull", pushed ? tries.answering->load() : tries.begun, kTracks + ps);
}

// Nothing: it was tried often enough. A ps without room is well, and says so at once, so that tries
// would be over in no time: it is asked for as long as tries that are not answered would take.
std::optional<int64_t> Trainer::RetryAfter(PsTries& tries, const absl::Status& error) const {
  if (!absl::IsResourceExhausted(error)) {
    if (tries.sent - tries.no_room < options_.tries) return kRetryMs;
    return std::nullopt;
  }
  const int64_t now_ms = environment_.loop.NowMs();
  if (tries.no_room++ == 0) tries.no_room_since_ms = now_ms;
  if (now_ms - tries.no_room_since_ms >= options_.exchange_ms * options_.tries) return std::nullopt;
  return kRetryMs << std::min<uint32_t>(tries.no_room - 1, kNoRoomDoublings);
}

void Trainer::FinishExchange() {
  const std::function<void()> done = std::exchange(exchange_.done, nullptr);
  done();
}

}  // namespace paracord
