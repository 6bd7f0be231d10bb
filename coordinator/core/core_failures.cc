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

constexpr int64_t kOutlivedMs = 500;      // after a death: who is heard then has outlived it
constexpr int64_t kOthersFirstMs = 2000;  // a batch whose worker died waits so long for another's

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
  ActOn(failures_.Add(batch, kind, task, other), lease.split,
        kind == FailureKind::kNonFinite ? ExitCode::kDiverged : ExitCode::kFailed);
}

void CoordinatorCore::ActOn(BatchFailures::Verdict verdict, uint64_t split, ExitCode code) {
  switch (verdict) {
    case BatchFailures::Verdict::kTryAgain:
      return;
    case BatchFailures::Verdict::kReject:
      // Some push of the batch may be on its way, of a worker that nobody hears of any more or that
      // is at the same split: a new generation keeps it out. Else the ledgers are enough.
      if (MayBePushed(split)) {
        PROBE("coordinator.reject.fenced");
        generation_.Want();
      }
      reread_ = true;
      return;
    case BatchFailures::Verdict::kFailJob:
      return FailJob(code, absl::StrCat("failures.policy is fail: ", last_failure_));
  }
}

void CoordinatorCore::NoteDeath(const WorkerSession& session, std::vector<LeaseState> leases,
                                const std::string& why) {
  Death death{session.task, why, std::move(leases), now_ms_, {}, {}, {}};
  const LeaseState& first = death.leases.front();
  for (const auto& [id, other] : sessions_) {
    if (other.joined_ms > first.granted_ms) continue;
    (table_->HasOtherThan(id, first.split) ? death.busy : death.idle).push_back(id);
  }
  deaths_.push_back(std::move(death));
  reread_ = true;
}

// The ledgers say which batch each was at.
void CoordinatorCore::CountDeaths(const std::vector<uint32_t>& next) {
  for (Death& death : std::exchange(deaths_read_, {})) {
    if (phase_ != Phase::kTraining) return;
    const auto at = std::ranges::find_if(death.leases, [&](LeaseState& lease) {
      lease.next = lease.split < next.size() ? next[lease.split] : 0;
      return lease.next < lease.end;
    });
    if (at == death.leases.end()) continue;  // all of them are entered: it died of none
    death.batch.set_epoch(table_->epoch());
    death.batch.set_split(at->split);
    death.batch.set_batch(at->next);
    const int64_t pause_ms = failures_.PauseAfterDeath(death.batch);
    pauses_[at->split] = {now_ms_ + pause_ms, death.task, now_ms_ + pause_ms + kOthersFirstMs};
    last_failure_ =
        absl::StrCat(Name(death.batch), " on ", death.task, ": the worker died: ", death.why);
    Warn(absl::StrCat(last_failure_, pause_ms == 0
                                         ? ""
                                         : absl::StrFormat("; it is computed again after %g s",
                                                           static_cast<double>(pause_ms) / 1000)));
    deaths_unjudged_.push_back(std::move(death));
  }
}

// A death is counted as soon as somebody who was there before is heard a while after it.
void CoordinatorCore::JudgeDeaths() {
  for (Death& death : std::exchange(deaths_unjudged_, {})) {
    if (phase_ != Phase::kTraining || !table_.has_value()) return;
    const auto outlived = [&](std::vector<uint64_t>& witnesses) {
      std::erase_if(witnesses, [&](uint64_t id) { return !sessions_.contains(id); });
      return std::ranges::any_of(witnesses, [&](uint64_t id) {
        return sessions_.at(id).last_seen_ms >= death.died_ms + kOutlivedMs;
      });
    };
    Outlived by = Outlived::kByNobody;
    if (outlived(death.busy)) {
      by = Outlived::kByBusyWorkers;
    } else if (!death.busy.empty()) {
      deaths_unjudged_.push_back(std::move(death));
      continue;
    } else if (outlived(death.idle)) {
      by = Outlived::kByIdleWorkers;
    } else if (!death.idle.empty()) {
      deaths_unjudged_.push_back(std::move(death));
      continue;
    }
    ActOn(failures_.AddDeath(death.batch, by), death.batch.split(), ExitCode::kFailed);
  }
}

void CoordinatorCore::ForgetDeaths() {
  deaths_.clear();
  deaths_read_.clear();
  deaths_unjudged_.clear();
  pauses_.clear();
}

// Splits of which this worker is to get no lease yet.
std::set<uint64_t> CoordinatorCore::WithheldFrom(const WorkerSession& session) const {
  std::set<uint64_t> withheld = failures_.Withheld(table_->epoch());
  for (const auto* deaths : {&deaths_, &deaths_read_}) {
    for (const Death& death : *deaths) {
      for (const LeaseState& lease : death.leases) withheld.insert(lease.split);
    }
  }
  for (const auto& [split, pause] : pauses_) {
    const bool others = session.task == pause.task && sessions_.size() > 1;
    if (now_ms_ < (others ? pause.others_until_ms : pause.until_ms)) withheld.insert(split);
  }
  return withheld;
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
  if (generation_.wanted()) return;  // after the new generation
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
  if (!table_.has_value() || phase_ == Phase::kEnded || ending_.has_value()) return;
  const uint64_t rejected = failures_.RejectedIn(table_->epoch());
  const double allowed = job_.failures.rejected_max * static_cast<double>(table_->batches());
  if (static_cast<double>(rejected) <= allowed) return;
  FailJob(
      failures_.RejectedNonFinite() ? ExitCode::kDiverged : ExitCode::kFailed,
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
