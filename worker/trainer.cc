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
// The least time between two pulls of a state: a ps may answer at once that the state is not there.
constexpr int64_t kWaitMsMin = 20;
constexpr size_t kRowsAhead = 8;  // batches of each device whose rows are known

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
      devices_(workload_->devices == nullptr ? 1 : workload_->devices->size()),
      leases_(plan_),
      rounds_(plan_, options_.staleness, options_.sync, options_.backup),
      rows_ahead_(kRowsAhead * devices_) {
  busy_ = true;
  parameters_->Open([this] {
    busy_ = false;
    Next();
  });
}

void Trainer::Take(std::span<const Lease> leases) {
  for (const Lease& lease : leases) leases_.Add(lease);
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
  // With the last batch of a lease the worker asks for the next lease, which keeps a fast worker
  // busy and costs a slow worker no more than the end of its split. With tables the worker asks a
  // batch earlier, so that the last exchange of a lease brings the rows of the next lease's first
  // batch. A worker that waits for lanes of others also computes lanes that nobody has.
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
    return options_.sync ? WithValues({batch}, {}, reject) : reject();
  }
  if (std::shared_ptr<Computation> computed = TakeComputed(batch)) {
    const auto go_on = [this, computed] { Computed(computed); };
    return options_.sync ? WithValues({batch}, {}, go_on) : go_on();
  }
  const Wave wave = NextWave();
  const bool known =
      std::ranges::all_of(wave, [](const auto& each) { return each->rows != nullptr; });
  tables_ && !known ? Look(wave) : PullAndCompute(wave);
}

// Returns the next batch, and batches of the same round for the remaining devices.
Trainer::Wave Trainer::NextWave() const {
  std::vector<BatchId> batches{leases_.batch()};
  for (const BatchId& next : leases_.Following(devices_ - 1)) {
    if (next.epoch() != batches[0].epoch() || next.batch() != batches[0].batch()) break;
    batches.push_back(next);
  }
  const std::vector<BatchId> upcoming = leases_.Upcoming(batches.size() - 1 + kUpcomingMax);
  Wave wave;
  for (size_t i = 0; i < batches.size(); ++i) {
    const auto computation = std::make_shared<Computation>();
    computation->batch = batches[i];
    computation->key = BatchKey(plan_, batches[i]);
    if (options_.sync) {
      const uint32_t examples = BatchExamples(plan_, batches[i].split(), batches[i].batch());
      computation->factor = LaneFactor(examples, plan_.batch());
    }
    const size_t first = std::min(i, upcoming.size());
    const size_t end = std::min(i + kUpcomingMax, upcoming.size());
    computation->upcoming.assign(upcoming.begin() + static_cast<int64_t>(first),
                                 upcoming.begin() + static_cast<int64_t>(end));
    computation->rows = rows_ahead_.Find(batches[i]);
    wave.push_back(computation);
  }
  return wave;
}

// Takes the computation of a batch that was computed together with others. Null: there is no such
// computation, and the others are dropped, because the next wave needs the arrays.
std::shared_ptr<Computation> Trainer::TakeComputed(const BatchId& batch) {
  const auto found = std::ranges::find_if(
      computed_, [&](const auto& each) { return SameBatch(each->batch, batch); });
  if (found == computed_.end()) {
    counters_.duplicates += computed_.size();
    computed_.clear();
    return nullptr;
  }
  std::shared_ptr<Computation> computed = *found;
  computed_.erase(found);
  return computed;
}

// Finds the rows that a wave's batches read, where nobody has looked ahead: for the first batches
// and after a gap.
void Trainer::Look(Wave wave) {
  wave[0]->next = leases_.Following(batches_ahead());
  environment_.executor.Run(
      [wave, workload = workload_] {
        for (const auto& each : wave) LookAtRows(*each, *workload);
      },
      gate_.Enter([this, wave]() mutable {
        std::string message;
        const Problem problem = wave[0]->problem(message);
        if (problem != PROBLEM_NONE) return GiveUp(*wave[0], problem, message);
        const auto bad = std::ranges::find_if(
            wave, [&](const auto& each) { return each->problem(message) != PROBLEM_NONE; });
        wave.erase(bad, wave.end());  // reported once the bad batch is next
        for (const auto& each : wave) rows_ahead_.Add(each->batch, each->rows);
        Learn(*wave[0]);
        PullAndCompute(wave);
      }));
}

// While an exchange is under way, finds the rows that the batches after the next batch read. The
// executor has found the rows before the next batch is computed.
void Trainer::LookAhead() {
  const auto look = std::make_shared<Computation>();
  for (const BatchId& next : leases_.Following(batches_ahead() + devices_)) {
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

void Trainer::PullAndCompute(const Wave& wave) {
  std::vector<BatchId> batches;
  std::vector<SharedRows> rows;
  for (const auto& each : wave) {
    batches.push_back(each->batch);
    if (each->rows != nullptr) rows.push_back(each->rows);
  }
  WithValues(std::move(batches), rows, [this, wave] {
    Compute(wave, [this, wave] {
      for (size_t i = 1 + wave[0]->run.size(); i < wave.size(); i += 1 + wave[i]->run.size()) {
        computed_.push_back(wave[i]);
      }
      Computed(wave[0]);
    });
  });
}

// Pulls values for batches of a round, unless the values at hand will do, and goes on with `then`.
// `batches[0]` is next. `rows`: rows of tables that the batches read.
void Trainer::WithValues(std::vector<BatchId> batches, const std::vector<SharedRows>& rows,
                         std::function<void()> then) {
  const bool has_rows =
      std::ranges::all_of(rows, [this](const SharedRows& each) { return parameters_->Has(each); });
  if (pulled_ && rounds_.Reached(batches[0]) && has_rows) return then();
  ExchangeOrder order;
  order.leased = batches[0];
  order.lease_proof = leases_.current().proof();
  if (computes_ahead()) {
    std::ranges::copy(leases_.Following(1), std::back_inserter(batches));
  }
  order.rows = RowsFor(batches);
  order.state = rounds_.StateForAll(batches);
  const auto failed = [this](const absl::Status& error) { FailExchange(error, /*pushed=*/false); };
  Ask(std::move(order), failed, std::move(then));
}

// Pulls once, and goes on with `then` if the ps have the state. Otherwise Next pulls again, or
// turns to work that has come meanwhile.
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

// The ps have left the state that the lane at hand needs: others have computed the lane's batch.
// Until the coordinator has read the ledgers it may lease the lane to this worker again, and the
// next pull would fail at once.
void Trainer::Outrun(const std::string& message) {
  PROBE("worker.outrun");
  Finish(PROBLEM_GAP, message);
  const auto go_on = [this] {
    busy_ = false;
    Next();
  };
  if (!leases_.empty()) return go_on();
  environment_.loop.PostAfter(kWaitMsMin, gate_.Enter(go_on));
  if (WantsTask()) callbacks_.wants_task();
}

// This worker may be the only worker left to carry the norms of the round that was pushed last.
void Trainer::AwaitRound() {
  ExchangeOrder order;
  order.state = awaits_;
  const auto failed = [this](const absl::Status& error) {
    awaits_.reset();  // others are further, or the round's lanes are granted again
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

// ---- the next batch, while this one is exchanged

std::vector<SharedRows> Trainer::RowsFor(const std::vector<BatchId>& batches) const {
  std::vector<SharedRows> rows;
  for (const BatchId& batch : batches) {
    if (SharedRows known = rows_ahead_.Find(batch); known != nullptr) rows.push_back(known);
  }
  return rows;
}

// Returns the batches to compute after the `run` lanes of the push under way.
std::vector<BatchId> Trainer::NotComputed(uint32_t run) const {
  std::vector<BatchId> following = leases_.Following(batches_ahead() + computed_.size(), run);
  std::erase_if(following, [this](const BatchId& batch) {
    return std::ranges::any_of(computed_,
                               [&](const auto& each) { return SameBatch(each->batch, batch); });
  });
  if (following.size() > batches_ahead()) following.resize(batches_ahead());
  return following;
}

bool Trainer::MayComputeAhead(const std::vector<BatchId>& following) const {
  if (!computes_ahead() || following.empty() || drained_) return false;
  if (!rounds_.Reached(following[0])) return false;
  const SharedRows rows = rows_ahead_.Find(following[0]);
  return !tables_ || (rows != nullptr && parameters_->Has(rows));
}

void Trainer::ComputeAhead(const BatchId& batch) {
  ahead_ = std::make_shared<Computation>();
  ahead_->batch = batch;
  ahead_->key = BatchKey(plan_, batch);
  ahead_->rows = rows_ahead_.Find(batch);
  ahead_->upcoming = leases_.Upcoming(1 + kUpcomingMax);
  ahead_->upcoming.erase(ahead_->upcoming.begin());  // without `batch`
  PROBE("worker.ahead");
  Compute({ahead_}, [] {});
}

void Trainer::DropAhead() {
  if (ahead_ == nullptr) return;
  PROBE("worker.ahead.dropped");
  ++counters_.duplicates;
  ahead_.reset();
}

// ---- with lanes, ps that cannot be reached

// Each lane at hand would keep all workers waiting until a ps is found not to answer. So the worker
// gives back all leases and takes none until every ps has answered.
void Trainer::LoseParameters(const std::string& message) {
  PROBE("worker.lost");
  lost_ = message;
  awaits_.reset();
  GiveBackAll();
  environment_.loop.PostAfter(kLostMs, gate_.Enter([this] { AskWhetherTheyAnswer(); }));
  Next();  // the worker may be draining
}

void Trainer::GiveBackAll() {
  computed_.clear();
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
