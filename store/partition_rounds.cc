#include "store/partition_rounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "common/squares.h"
#include "config/data_plan.h"
#include "exchange/round_norms.h"
#include "exchange/state_gone.h"
#include "store/round_gate.h"

namespace paracord {
namespace {

absl::Status TwoStates(uint64_t least, uint64_t most) {
  return absl::DataLossError(absl::StrCat("ledger: some of its lanes are at state ", least,
                                          ", and others at state ", most,
                                          ": no synchronous job has such values"));
}

// The rounds of the job up to the last batch that some lane has entered.
uint64_t MostRounds(const PartitionLedger& ledger, const DataPlan& plan) {
  const Ledger entered = ledger.ToProto(/*intervals=*/true);
  const uint64_t lanes = SplitsPerEpoch(plan);
  uint64_t most = 0;
  for (const SplitInterval& interval : entered.finished()) {
    const uint32_t batches = BatchesInSplit(plan, interval.last() % lanes);
    most = std::max(most, StateBefore(plan, interval.last() / lanes, batches));
  }
  for (const OpenSplit& open : entered.open()) {
    most = std::max(most, StateBefore(plan, open.split() / lanes, open.next()));
  }
  return most;
}

// The factor by which a variable is clipped, of the sums of squares of all variables.
float FactorOf(const NormClip& clip, const RoundNorms& norms, uint32_t variable) {
  if (clip.clipnorm > 0)
    return ClipFactor(clip.clipnorm, norms.squares(static_cast<int>(variable)));
  double all = 0;
  for (const double squares : norms.squares()) all += squares;
  return ClipFactor(clip.global_clipnorm, all);
}

}  // namespace

absl::StatusOr<uint64_t> StateOf(const PartitionLedger& ledger, const DataPlan& plan) {
  const uint64_t lanes = SplitsPerEpoch(plan), rounds = RoundsPerEpoch(plan);
  const uint64_t epoch = ledger.FirstUnfinished() / lanes;
  uint64_t least = rounds, most = 0;
  for (uint64_t lane = 0; lane < lanes; ++lane) {
    const uint32_t batches = BatchesInSplit(plan, lane);
    const uint32_t next = ledger.Next({epoch * lanes + lane, 0, batches});
    if (next < batches) least = std::min<uint64_t>(least, next);
    most = std::max<uint64_t>(most, next);
  }
  const uint64_t state = StateBefore(plan, epoch, least);
  most = std::max(StateBefore(plan, epoch, most), MostRounds(ledger, plan));
  if (most > state) return TwoStates(state, most);
  const uint64_t steps = ledger.steps();
  if (steps <= state && ledger.applied() <= steps * lanes) return state;
  return absl::DataLossError(absl::StrCat("ledger: its ", steps, " steps are not those of state ",
                                          state, " with ", ledger.applied(), " batches applied"));
}

PartitionRounds::PartitionRounds(const RoundsOptions& options, RoundSum::Shape shape)
    : plan_(options.plan),
      lanes_(SplitsPerEpoch(plan_)),
      rounds_(RoundsPerEpoch(plan_)),
      clip_(options.clip),
      state_(options.state),
      sum_(shape, plan_.batch()) {
  sum_.Begin(LanesOfRound(plan_, round()));
}

std::unique_ptr<RoundSum::Buffer> PartitionRounds::MakeBuffer() const {
  return sum_.WantsBuffer() ? sum_.MakeBuffer() : nullptr;
}

bool PartitionRounds::Completes(const PlanBatch& batch) const {
  if (clip_.has_value()) return false;
  if (StateFor(batch) != state_) return false;
  const std::vector<uint32_t> missing = sum_.Missing(size_t{batch.lanes} + 1);
  return missing.size() == batch.lanes && missing[0] == batch.split % lanes_ &&
         missing.back() == missing[0] + batch.lanes - 1;
}

uint64_t PartitionRounds::StateFor(const PlanBatch& batch) const {
  return StateBefore(plan_, batch.split / lanes_, batch.batch);
}

uint32_t PartitionRounds::NextOf(const PlanBatch& batch, const PartitionLedger& ledger) const {
  const uint32_t next = ledger.Next(batch);
  const auto lane = static_cast<uint32_t>(batch.split % lanes_);
  const bool under_way =
      StateBefore(plan_, batch.split / lanes_, next) == state_ && lane < sum_.lanes();
  return under_way && sum_.Has(lane) ? next + 1 : next;
}

PartitionLedger::Entry PartitionRounds::Take(uint64_t generation, const PlanBatch& batch,
                                             bool rejected, const PartitionUpdate& update,
                                             const PartitionLedger& ledger,
                                             std::unique_ptr<RoundSum::Buffer>& fresh) {
  sum_.BeginGeneration(generation);
  const uint64_t state = StateFor(batch);
  if (state < state_) PROBE("ps.push.already_applied");
  if (state > state_) PROBE("ps.push.gap");
  if (state < state_) return {PUSH_ALREADY_APPLIED, NextOf(batch, ledger)};
  if (state > state_) return {PUSH_GAP, NextOf(batch, ledger)};
  const auto lane = static_cast<uint32_t>(batch.split % lanes_);
  uint64_t examples = 0;
  for (uint32_t i = 0; i < batch.lanes && !rejected; ++i) {
    examples += BatchExamples(plan_, lane + i, batch.batch);
  }
  const LaneRun run{lane, batch.lanes, examples, rejected};
  const RoundSum::LaneOutcome taken = sum_.Take(generation, run, update, fresh);
  if (taken == RoundSum::LaneOutcome::kPartly) {
    PROBE("ps.push.partly");
    return {PUSH_PARTLY, batch.batch};
  }
  if (taken == RoundSum::LaneOutcome::kAlready) PROBE("ps.push.already_applied");
  if (taken == RoundSum::LaneOutcome::kAlready) return {PUSH_ALREADY_APPLIED, batch.batch + 1};
  if (taken != RoundSum::LaneOutcome::kWhole) return {PUSH_TAKEN, batch.batch + 1};
  if (!clip_.has_value() || sum_.no_examples()) return {PUSH_APPLIED, batch.batch + 1};
  PROBE("ps.round.waits_for_norms");
  const PartitionUpdate& mean = sum_.HeldMean();
  const double squares = clip_->exempt ? 0 : SumOfSquares(mean.gradient.Flat());
  // What is clipped by the greatest squares is seen not to be finite.
  squares_ = {state_, std::isfinite(squares) ? squares : kSquaresMax};
  return {PUSH_TAKEN, batch.batch + 1};
}

bool PartitionRounds::Clip(uint64_t generation, const RoundNorms& norms) {
  sum_.BeginGeneration(generation);
  if (!waits_for_norms() || norms.round() != state_) return false;
  if (clip_->exempt) return true;
  // A sum of squares is at least each of its addends; smaller norms are wrong.
  if (norms.squares(static_cast<int>(clip_->variable)) < squares_->squares) return false;
  sum_.Scale(FactorOf(clip_->clip, norms, clip_->variable));
  return true;
}

std::optional<Partition::MeanSquares> PartitionRounds::SquaresOfMean(uint64_t generation) const {
  if (!squares_.has_value() || squares_->round + 1 == state_) return squares_;
  const bool waits = squares_->round == state_ && sum_.whole() && sum_.generation() == generation;
  return waits ? squares_ : std::nullopt;
}

bool PartitionRounds::Enter(PartitionLedger& ledger) {
  const uint64_t first = state_ / rounds_ * lanes_;
  const auto batch = static_cast<uint32_t>(round());
  bool any = false;
  for (uint32_t lane = 0; lane < sum_.lanes(); ++lane) {
    ledger.Enter({first + lane, batch, BatchesInSplit(plan_, lane)}, sum_.rejected(lane));
    any = any || !sum_.rejected(lane);
  }
  if (any) ledger.CountStep();
  return any;
}

void PartitionRounds::Next() {
  ++state_;
  sum_.Begin(LanesOfRound(plan_, round()));
  if (!waiting_.has_value() || waiting_->state != state_) return;
  const Waiting ready = *std::exchange(waiting_, {});
  ready.image->ReferHeld();
  ready.referred();
}

absl::StatusOr<bool> PartitionRounds::IsBefore(const Partition::Facts& facts,
                                               std::optional<uint64_t> state, bool kept) const {
  if (!state.has_value() || *state == state_) return false;
  if (kept && *state + 1 == state_) return true;
  return StateGone(facts.id, *state, state_, kept);
}

absl::StatusOr<Partition::Lack> PartitionRounds::LackOf(const Partition::Facts& facts,
                                                        uint64_t state, bool kept) const {
  if (state > state_) return Partition::Lack{sum_.Missing(kMissingLanesMax), waits_for_norms()};
  const absl::StatusOr<bool> before = IsBefore(facts, state, kept);
  if (!before.ok()) return before.status();
  return Partition::Lack{};
}

absl::Status PartitionRounds::ReferAt(const Partition::Facts& facts, uint64_t state,
                                      PartitionImage& image, std::function<void()> referred) {
  if (state < state_) return IsBefore(facts, state, /*kept=*/false).status();
  waiting_.reset();
  if (state > state_) {
    waiting_ = {state, &image, std::move(referred)};
    return absl::OkStatus();
  }
  image.ReferHeld();
  referred();
  return absl::OkStatus();
}

}  // namespace paracord
