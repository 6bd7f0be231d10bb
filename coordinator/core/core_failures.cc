// Failed batches: a failure is counted; then the batch is tried again, all partitions reject it, or
// the job ends.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/probe.h"
#include "coordinator/core/core.h"

namespace paracord {

// The next batch of a lease of the open epoch.
BatchId CoordinatorCore::BatchOf(const LeaseState& lease) const {
  BatchId batch;
  batch.set_epoch(training_.table()->epoch());
  batch.set_split(lease.split);
  batch.set_batch(lease.next);
  return batch;
}

void CoordinatorCore::CountFailure(const std::string& task, const LeaseState& lease,
                                   FailureKind kind, const std::string& message) {
  // Another worker has computed the batch.
  if (HasLanes() && lease.next < training_.table()->EnteredOf(lease.split)) return;
  const BatchId batch = BatchOf(lease);
  const Failures::Verdict verdict =
      failures_.Add(batch, kind, task, sessions_.AnyOther(task), message);
  if (kind == FailureKind::kLimit) {
    if (verdict == Failures::Verdict::kFailJob) FailJob(ExitCode::kConfiguration, failures_.last());
    return;
  }
  ActOn(verdict, lease.split,
        kind == FailureKind::kNonFinite ? ExitCode::kDiverged : ExitCode::kFailed);
}

void CoordinatorCore::ActOn(Failures::Verdict verdict, uint64_t split, ExitCode code) {
  switch (verdict) {
    case Failures::Verdict::kTryAgain:
      return;
    case Failures::Verdict::kReject:
      // A worker that went silent, or that shares the split, may have a push of the batch in
      // flight: a new generation fences it. In synchronous training gradients may also be in the
      // sum of an incomplete round, which no ledger shows. Otherwise the ledgers suffice.
      if (training_.MayBePushed(split) || job_.guarantees.sync()) {
        PROBE("coordinator.reject.fenced");
        generation_.Want("a batch is rejected");
      }
      ps_.WantLedgers();
      return;
    case Failures::Verdict::kFailJob:
      return FailJob(code, absl::StrCat("failures.policy is fail: ", failures_.last()));
  }
}

void CoordinatorCore::NoteDeath(const WorkerSession& session, std::vector<LeaseState> leases,
                                const std::string& why) {
  // With lanes a worker computes the batch that is furthest behind; otherwise leases are worked off
  // in the order of their grants.
  if (HasLanes()) {
    std::ranges::sort(leases, {},
                      [](const LeaseState& lease) { return std::pair(lease.next, lease.split); });
  }
  WorkerDeath death{session.task, why, std::move(leases), now_ms_, {}, {}, {}};
  const LeaseState& first = death.leases.front();
  for (const auto& [id, other] : sessions_.all()) {
    if (other.joined_ms > first.granted_ms) continue;
    (training_.table()->HasOtherThan(id, first.split) ? death.busy : death.idle).push_back(id);
  }
  failures_.NoteDeath(std::move(death));
  ps_.WantLedgers();
}

// A death counts as soon as a session that existed before is heard a while after it.
void CoordinatorCore::JudgeDeaths() {
  if (!phases_.training() || training_.table() == nullptr) return failures_.ForgetUnjudged();
  const auto heard_ms = [this](uint64_t id) { return sessions_.HeardMs(id); };
  for (const Failures::Judged& judged : failures_.JudgeDeaths(heard_ms)) {
    if (!phases_.training()) return;
    ActOn(judged.verdict, judged.split, ExitCode::kFailed);
  }
}

// A job is not done if all batches are applied but a variable is not finite.
bool CoordinatorCore::FailNotFinite() {
  const std::optional<uint32_t> partition = ps_.NotFinite();
  if (!partition.has_value()) return false;
  if (end_.planned()) return true;
  const uint32_t variable = ps_.layout()[*partition].variable();
  SetPhase(Phase::kTraining);
  EndAfterCheckpoint(
      {ExitCode::kDiverged, "failed",
       absl::StrCat("an update gave a value of ", record_.variables()[variable].name(),
                    " that is not finite: a lower learning_rate or a clipnorm may keep it; "
                    "paracord checkpoint lists what was finite before")});
  return true;
}

// Fails the job if too many batches of an epoch are rejected.
void CoordinatorCore::CheckRejected() {
  if (training_.table() == nullptr || phases_.ended() || end_.planned()) return;
  const uint64_t rejected = failures_.counts().RejectedIn(training_.table()->epoch());
  const double allowed =
      job_.failures.rejected_max * static_cast<double>(training_.table()->batches());
  if (static_cast<double>(rejected) <= allowed) return;
  const bool nonfinite = failures_.counts().RejectedNonFinite();
  FailJob(nonfinite ? ExitCode::kDiverged : ExitCode::kFailed,
          absl::StrFormat("%d of %d batches of epoch %d are rejected, more than "
                          "failures.rejected_max = %g%s; %s",
                          rejected, training_.table()->batches(), training_.table()->epoch() + 1,
                          job_.failures.rejected_max,
                          failures_.last().empty() ? "" : "; the last: " + failures_.last(),
                          nonfinite ? "a lower optimizer.learning_rate or an optimizer.clipnorm "
                                      "may keep losses finite"
                                    : "with a larger one the job goes on"));
}

}  // namespace paracord
