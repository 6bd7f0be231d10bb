#include "store/store.h"

#include <utility>

#include "common/failpoint.h"
#include "common/trace.h"
#include "store/step_check.h"

namespace paracord {
namespace {

// Counts one push in Content::pushes until it ends.
class Pushing {
 public:
  // null: it is none.
  explicit Pushing(std::atomic<int>* pushes) : pushes_(pushes) {
    if (pushes_ != nullptr) ++*pushes_;
  }
  ~Pushing() {
    if (pushes_ != nullptr) --*pushes_;
  }
  Pushing(const Pushing&) = delete;
  Pushing& operator=(const Pushing&) = delete;

 private:
  std::atomic<int>* const pushes_;
};

}  // namespace

void Store::Apply(StepRequest request, const PushFence& fence, const Reply& reply,
                  PinnedReservation reserved) const {
  absl::StatusOr<PendingPull> pull = Enter(std::move(request), fence, std::move(reserved));
  if (!pull.ok()) return reply(pull.status());
  reply(pull->Answer());
}

void Store::Exchange(DecodedRequest request, const PushFence& fence, const EncodedReply& reply,
                     PinnedReservation reserved) const {
  FAILPOINT("ps.push.received");
  const bool pushes = request.header.has_batch();
  absl::StatusOr<StepRequest> step = ReadStep(std::move(request));
  if (!step.ok()) {
    if (pushes) ++counters_.refused;
    return reply(step.status());
  }
  Apply(
      *std::move(step), fence,
      [reply](absl::StatusOr<DecodedReply> applied) {
        if (!applied.ok()) return reply(applied.status());
        reply(EncodeExchange(applied->header, std::move(applied->pieces)));
      },
      std::move(reserved));
}

absl::StatusOr<PendingPull> Store::Enter(StepRequest request, const PushFence& fence,
                                         PinnedReservation reserved) const {
  const bool pushes = request.step.has_value();
  const Pushing pushing(pushes ? &content_.pushes : nullptr);
  const int64_t received = TraceBegin();
  absl::StatusOr<CheckedStep> step = CheckStep(content_, std::move(request));
  TraceEnd("check", received);
  if (!step.ok()) {
    if (pushes) ++counters_.refused;
    return step.status();
  }
  FAILPOINT("ps.push.validated");

  PendingPull pull(std::move(step->wants), std::move(reserved));
  if (!step->batch.has_value()) return pull;
  const TraceSpan span("apply");
  const double begun = FigureSeconds();
  for (const CheckedUpdate& entry : step->updates) {
    const Outcome outcome =
        entry.partition->Push(*step->batch, entry.rejected, entry.update, fence);
    if (outcome.outcome == PUSH_NONE) {
      ++counters_.stale;
      return absl::AbortedError("a newer generation began while the push was under way");
    }
    if (outcome.outcome == PUSH_APPLIED) ++counters_.applied;
    if (outcome.outcome == PUSH_ALREADY_APPLIED) ++counters_.duplicates;
    if (outcome.outcome == PUSH_GAP) ++counters_.gaps;
    PartitionState& state = pull.StateOf(entry.partition->facts().id);
    state.set_outcome(outcome.outcome);
    state.set_next(outcome.next);
    state.set_updates(outcome.updates);
  }
  counters_.apply_seconds.Observe(FigureSeconds() - begun);
  FAILPOINT("ps.push.applied");
  return pull;
}

}  // namespace paracord
