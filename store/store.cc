#include "store/store.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/human_bytes.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "exchange/round_norms.h"
#include "store/round_gate.h"
#include "store/step_check.h"

namespace paracord {
namespace {

// Counts a push in PartitionSet::pushes during its lifetime.
class PushCounter {
 public:
  // null: counts nothing.
  explicit PushCounter(std::atomic<int>* pushes) : pushes_(pushes) {
    if (pushes_ != nullptr) ++*pushes_;
  }
  ~PushCounter() { End(); }
  PushCounter(const PushCounter&) = delete;
  PushCounter& operator=(const PushCounter&) = delete;

  void End() {
    if (std::atomic<int>* const pushes = std::exchange(pushes_, nullptr)) --*pushes;
  }

 private:
  std::atomic<int>* pushes_;
};

// Reserves what the rows of a push take in sums of rounds.
absl::Status ReserveRows(const CheckedStep& step, const MemoryShare& share,
                         MemoryReservation& reservation) {
  uint64_t bytes = 0;
  for (const CheckedUpdate& entry : step.updates) {
    if (!entry.rejected) bytes += entry.partition->RoundBytesOf(entry.update);
  }
  if (bytes == 0 || reservation.More(bytes)) return absl::OkStatus();
  for (const CheckedUpdate& entry : step.updates) entry.partition->ReleaseRoundBytes();
  if (reservation.More(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the rows of tables in a round take ",
                   HumanBytes(static_cast<uint64_t>(std::max<int64_t>(share.bytes(), 0))),
                   " here and those of this push up to ", HumanBytes(bytes), ", of ",
                   HumanBytes(share.bytes_max()),
                   " that --memory-limit leaves them: a smaller \"round_batches\" or \"batch\", "
                   "more ps, or more memory"));
}

}  // namespace

WaitingPulls::Ticket Store::Apply(StepRequest request, const PushFence& fence, const Reply& reply,
                                  PinnedReservation reserved, const WaitsFn& waits) const {
  const std::optional<WantedState> state = request.state;
  absl::StatusOr<PendingPull> pull = Enter(std::move(request), fence, std::move(reserved));
  if (!pull.ok()) {
    reply(pull.status());
    return {};
  }
  if (state.has_value()) {
    return waiting_.Wait(content_, *state, fence, *std::move(pull), reply, waits);
  }
  reply(pull->Answer({}));
  return {};
}

WaitingPulls::Ticket Store::Exchange(DecodedRequest request, const PushFence& fence,
                                     const EncodedReply& reply, PinnedReservation reserved,
                                     const WaitsFn& waits) const {
  FAILPOINT("ps.push.received");
  const bool pushes = request.header.has_batch();
  absl::StatusOr<StepRequest> step = ReadStep(std::move(request));
  if (!step.ok()) {
    if (pushes) ++counters_.refused;
    reply(step.status());
    return {};
  }
  return Apply(
      *std::move(step), fence,
      [reply](absl::StatusOr<DecodedReply> applied) {
        if (!applied.ok()) return reply(applied.status());
        reply(EncodeExchange(applied->header, std::move(applied->pieces)));
      },
      std::move(reserved), waits);
}

absl::StatusOr<PendingPull> Store::Enter(StepRequest request, const PushFence& fence,
                                         PinnedReservation reserved) const {
  const bool pushes = request.step.has_value();
  PushCounter pushing(pushes || request.norms.has_value() ? &content_.pushes : nullptr);
  const int64_t received = TraceBegin();
  absl::StatusOr<CheckedStep> step = CheckStep(content_, std::move(request));
  TraceEnd("check", received);
  if (!step.ok()) {
    if (pushes) ++counters_.refused;
    return step.status();
  }
  FAILPOINT("ps.push.validated");

  PendingPull pull(std::move(step->wants), std::move(reserved));
  if (step->norms.has_value() && !content_.clip->alone) {
    if (absl::Status own = CheckOwnSquares(*step->norms, fence); !own.ok()) {
      if (pushes) ++counters_.refused;
      return own;
    }
    if (!fence.over() && EnterNorms(*step->norms, fence.Entered())) {
      waiting_.Reached(content_, step->norms->round() + 1);
    }
  }
  if (!step->batch.has_value()) return pull;
  if (fence.over()) {
    ++counters_.stale;
    return absl::AbortedError("a newer generation began while the push was under way");
  }
  std::optional<MemoryReservation> rows;  // reserved until the partitions count them
  if (content_.round_rows != nullptr) {
    RETURN_IF_ERROR(ReserveRows(*step, *content_.round_rows, rows.emplace(*content_.round_rows)));
  }
  const bool entered = EnterPush(*step, fence.Entered(), pull);
  pushing.End();
  // A whole round may wait for norms; waiting pulls have to tell their workers.
  if (entered || content_.clip.has_value()) {
    if (content_.plan.lanes() != 0) waiting_.Entered(content_, *step->batch);
  }
  return pull;
}

// The norms of a variable equal the squares of its partitions if all are here, and are no less
// otherwise: adding nonnegative numbers never rounds below a partial sum.
absl::Status Store::CheckOwnSquares(const RoundNorms& norms, const PushFence& fence) const {
  std::vector<PartitionSquares> squares;
  std::vector<bool> known(content_.clip->variables(), true);
  for (const auto& partition : content_.partitions) {
    if (!partition->facts().trained) continue;
    const auto of = partition->SquaresOfMean(fence.generation());
    const bool of_round = of.has_value() && of->round == norms.round();
    if (!of_round) known[partition->facts().variable] = false;
    if (!of_round) continue;
    squares.push_back({partition->facts().id, partition->facts().variable, of->squares});
  }
  const std::vector<double> own = SquaresOfVariables(squares, content_.clip->variables());
  for (uint32_t v = 0; v < own.size(); ++v) {
    const double carried = norms.squares(static_cast<int>(v));
    const bool exact = known[v] && content_.clip->whole[v];
    if (exact ? carried == own[v] : carried >= own[v]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the norms of round ", norms.round(), " say ", carried, " for the squares of variable ", v,
        ", of which the partitions here alone have ", own[v]));
  }
  return absl::OkStatus();
}

bool Store::EnterNorms(const RoundNorms& norms, const PushFence& fence) const {
  bool any = false;
  for (const auto& partition : content_.partitions) {
    if (partition->facts().trained) any = partition->TakeNorms(norms, fence) || any;
  }
  return any;
}

bool Store::EnterOwnNorms(uint64_t round, const PushFence& fence) const {
  std::vector<PartitionSquares> squares;
  for (const auto& partition : content_.partitions) {
    if (!partition->facts().trained) continue;
    const auto of = partition->SquaresOfMean(fence.generation());
    if (!of.has_value() || of->round != round) return false;
    squares.push_back({partition->facts().id, partition->facts().variable, of->squares});
  }
  RoundNorms norms;
  norms.set_round(round);
  const std::vector<double> sums = SquaresOfVariables(squares, content_.clip->variables());
  norms.mutable_squares()->Add(sums.begin(), sums.end());
  return EnterNorms(norms, fence);
}

bool Store::EnterPush(const CheckedStep& step, const PushFence& fence, PendingPull& pull) const {
  const TraceSpan span("apply");
  const double begun = FigureSeconds();
  bool entered = false;
  for (const CheckedUpdate& entry : step.updates) {
    const Outcome outcome = entry.partition->Push(*step.batch, entry.rejected, entry.update, fence);
    const bool applied = outcome.outcome == PUSH_APPLIED;
    entered = entered || applied;
    if (applied || outcome.outcome == PUSH_TAKEN) ++counters_.applied;
    if (outcome.outcome == PUSH_ALREADY_APPLIED || outcome.outcome == PUSH_PARTLY) {
      ++counters_.duplicates;
    }
    if (outcome.outcome == PUSH_GAP) ++counters_.gaps;
    PartitionState& state = pull.StateOf(entry.partition->facts().id);
    state.set_outcome(outcome.outcome);
    state.set_next(outcome.next);
    state.set_updates(outcome.updates);
  }
  if (content_.clip.has_value() && content_.clip->alone) {
    const uint64_t round = StatesAfter(content_.plan, *step.batch).first - 1;
    entered = EnterOwnNorms(round, fence) || entered;
  }
  counters_.apply_seconds.Observe(FigureSeconds() - begun);
  FAILPOINT("ps.push.applied");
  return entered;
}

}  // namespace paracord
