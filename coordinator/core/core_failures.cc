// What becomes of batches that fail: counted, tried again, rejected by all partitions alike, or the
// end of the job.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "coordinator/core/core.h"

namespace paracord {
namespace {

std::string Name(const BatchId& batch) {
  return absl::StrFormat("batch %d of split %d of epoch %d", batch.batch(), batch.split(),
                         batch.epoch() + 1);
}

bool Entered(const Ledger& ledger, uint64_t split, uint32_t batch) {
  const bool finished =
      std::any_of(ledger.finished().begin(), ledger.finished().end(),
                  [&](const SplitInterval& s) { return s.first() <= split && split <= s.last(); });
  return finished ||
         std::any_of(ledger.open().begin(), ledger.open().end(), [&](const OpenSplit& open) {
           return open.split() == split && open.next() > batch;
         });
}

}  // namespace

void CoordinatorCore::CountFailure(const std::string& task, const LeaseState& lease,
                                   FailureKind kind, const std::string& message) {
  BatchId batch;
  batch.set_epoch(table_->epoch());
  batch.set_split(lease.split);
  batch.set_batch(lease.next);
  const bool other = std::any_of(sessions_.begin(), sessions_.end(),
                                 [&](const auto& item) { return item.second.task != task; });
  last_failure_ = absl::StrCat(Name(batch), " on ", task, ": ", message);
  Warn(last_failure_);
  switch (failures_.Add(batch, kind, task, other)) {
    case BatchFailures::Verdict::kTryAgain:
      return;
    case BatchFailures::Verdict::kReject:
      // Some push of the batch may be on its way, of a worker that nobody hears of any more or that
      // is at the same split: a new generation keeps it out. Else the ledgers are enough.
      if (MayBePushed(lease.split)) {
        PROBE("coordinator.reject.fenced");
        fence_wanted_ = true;
      }
      reread_ = true;
      return;
    case BatchFailures::Verdict::kFailJob:
      return EndJob(kind == FailureKind::kNonFinite ? ExitCode::kDiverged : ExitCode::kFailed,
                    "failed", absl::StrCat("failures.policy is fail: ", last_failure_));
  }
}

void CoordinatorCore::CountDeaths(const std::vector<uint32_t>& next) {
  for (Death& death : std::exchange(deaths_read_, {})) {
    if (phase_ != Phase::kTraining) return;
    const uint64_t split = death.lease.split;
    death.lease.next = split < next.size() ? next[split] : 0;
    if (death.lease.next >= death.lease.end) continue;
    CountFailure(death.task, death.lease, FailureKind::kWorkerDied,
                 "the worker died: " + death.why);
  }
}

bool CoordinatorCore::MayBePushed(uint64_t split) const {
  if (abandoned_.contains(split)) return true;
  const auto& leases = table_->leases();
  return std::any_of(leases.begin(), leases.end(),
                     [&](const auto& item) { return item.second.split == split; });
}

// The ledgers of all partitions have been read since these rejections were asked for, and nothing
// that could change what they say of these batches is on its way.
void CoordinatorCore::DecideRejections(const std::vector<const Ledger*>& ledgers) {
  if (fence_wanted_) return;  // after the new generation
  bool decided = false;
  for (const BatchId& batch : std::exchange(rejections_read_, {})) {
    const uint64_t split = batch.epoch() * SplitsPerEpoch(state_.plan) + batch.split();
    const bool entered = std::any_of(ledgers.begin(), ledgers.end(), [&](const Ledger* ledger) {
      return Entered(*ledger, split, batch.batch());
    });
    if (failures_.Decide(batch, entered && !MUTANT("rejected_where_missing"))) {
      PROBE("coordinator.batch.rejected");
      decided = true;
      Warn(absl::StrCat("rejected: ", Name(batch),
                        entered ? ", though some partitions have it" : "",
                        "; the last failure: ", last_failure_));
    } else {
      PROBE("coordinator.reject.entered");
      Warn(absl::StrCat(Name(batch), " is not rejected: some partition has it already"));
    }
  }
  if (decided) SaveJobState();
}

// A job whose batches are all applied, and whose variables nobody can use, is not done.
bool CoordinatorCore::FailNotFinite() {
  for (const Ps& ps : ps_) {
    for (const PartitionDescription& partition : ps.ledgers) {
      if (partition.healthy() || partition.id() >= layout_.size()) continue;
      const uint32_t variable = layout_[partition.id()].variable();
      if (ending_.has_value()) return true;
      SetPhase(Phase::kTraining);
      EndAfterCheckpoint(
          {ExitCode::kDiverged, "failed",
           absl::StrCat("an update gave a value of ", state_.variables[variable].name(),
                        " that is not finite: a lower learning_rate or a clipnorm may keep it; "
                        "paracord checkpoint lists what was finite before")});
      return true;
    }
  }
  return false;
}

// Too many rejected batches in an epoch fail the job.
void CoordinatorCore::CheckRejected() {
  if (!table_.has_value() || phase_ == Phase::kEnded) return;
  const uint64_t rejected = failures_.RejectedIn(table_->epoch());
  const double allowed = job_.failures.rejected_max * static_cast<double>(table_->batches());
  if (static_cast<double>(rejected) <= allowed) return;
  EndJob(
      failures_.RejectedNonFinite() ? ExitCode::kDiverged : ExitCode::kFailed, "failed",
      absl::StrFormat("%d of %d batches of epoch %d are rejected, more than "
                      "failures.rejected_max = %g%s; with a larger one the job goes on",
                      rejected, table_->batches(), table_->epoch() + 1, job_.failures.rejected_max,
                      last_failure_.empty() ? "" : "; the last: " + last_failure_));
}

// A restore may take the job back to the oldest checkpoint there is, and its batches have to be
// rejected again then.
uint64_t CoordinatorCore::FirstEpochToReplay() const {
  if (manifests_.empty()) return 0;
  uint64_t entered = TotalBatches();
  for (const Manifest& manifest : manifests_) {
    for (const ManifestPartition& partition : manifest.partitions) {
      if (!manifest.variables[partition.spec.variable()].trainable()) continue;
      entered = std::min(entered, partition.applied + partition.rejected);
    }
  }
  return entered / BatchesPerEpoch(state_.plan);
}

}  // namespace paracord
