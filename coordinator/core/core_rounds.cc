// Checkpoint rounds: a directory, a snapshot of each ps at its own instant, and the manifest last.
// Nothing of training waits for a round.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "coordinator/core/core.h"
#include "coordinator/core/early_stop.h"

namespace paracord {
namespace {

constexpr int64_t kRetryRoundMs = 5000;  // after a round that failed
constexpr uint32_t kSnapshotTries = 3;   // of one round and ps, for lost messages
constexpr uint32_t kCommitTries = 3;     // of a round that is not the final one
constexpr uint32_t kBestTries = 3;       // of rounds that keep the best so far

// Of one job: what they hold is the same.
bool SameProgress(const Manifest& a, const Manifest& b) {
  return std::ranges::equal(a.partitions, b.partitions, [](const auto& one, const auto& other) {
    return one.updates == other.updates && one.applied == other.applied &&
           one.rejected == other.rejected && one.healthy == other.healthy;
  });
}

}  // namespace

void CoordinatorCore::DriveRounds() {
  // Behind a claim of ours, what we did before it would look as if somebody else had claimed it.
  const bool again = round_.has_value() && round_->commit_at_ms != 0 && !generation_.claiming();
  if (again && now_ms_ >= round_->commit_at_ms) Commit();
  if (!job_fixed_ || !AllPs(PsStage::kReady) || complete_committed_) return;
  const bool serving =
      phase_ == Phase::kTraining || phase_ == Phase::kEvaluating || phase_ == Phase::kFinishing;
  if (!serving || round_.has_value() || now_ms_ < next_round_ms_) return;
  const bool at_once =
      phase_ == Phase::kFinishing || ending_.has_value() || best_wanted_ ||
      std::any_of(ps_.begin(), ps_.end(), [](const Ps& ps) { return ps.draining; });
  // What nobody has computed anything for since then needs no other one.
  const bool periodic =
      job_.checkpoint.every_seconds > 0 && computed_at_round_ != state_.counters.computed;
  if (at_once || periodic) StartRound(phase_ == Phase::kFinishing && !reading_ledgers_);
}

void CoordinatorCore::StartRound(bool complete) {
  computed_at_round_ = state_.counters.computed;
  round_.emplace();
  round_->id = ++last_round_;
  round_->complete = complete;
  round_->directory = RoundDirectory(generation_.claimed(), round_->id);
  round_->replies.resize(ps_.size());
  round_->started_ms = now_ms_;
  Emit(MakeRoundDirectory{round_->id, round_->directory});
}

void CoordinatorCore::Handle(const RoundDirectoryMadeEvent& event) {
  if (!round_.has_value() || round_->id != event.round) return;
  if (!event.status.ok()) return FailRound(std::string(event.status.message()));
  round_->asked = true;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    ps_[i].snapshot_tries = 0;
    AskSnapshot(i);
  }
}

void CoordinatorCore::AskSnapshot(uint32_t index) {
  Ps& ps = ps_[index];
  ++ps.snapshot_tries;
  SnapshotRequest request;
  *request.mutable_fence() = FenceFor(ps);
  request.set_coordinator_boot_id(options_.boot_id);
  request.set_round(round_->id);
  request.set_directory(round_->directory);
  request.set_ps(index);
  request.set_ps_count(static_cast<uint32_t>(ps_.size()));
  SendPs(index, ps.snapshot_tag, kAllOfPsMs, request);
}

void CoordinatorCore::OnSnapshot(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  ps.snapshot_tag = 0;
  if (!round_.has_value() || !round_->asked || round_->manifest.has_value()) return;
  if (!reply.ok()) {
    const bool lost = absl::IsUnavailable(reply.status());
    if (lost && ps.stage == PsStage::kReady && ps.snapshot_tries < kSnapshotTries) {
      return AskSnapshot(index);  // the same order gets the same answer
    }
    return FailRound(absl::StrCat("ps:", index, ": ", std::string(reply.status().message())));
  }
  round_->replies[index] = std::get<SnapshotReply>(*reply);
  const bool all = std::all_of(round_->replies.begin(), round_->replies.end(),
                               [](const auto& r) { return r.has_value(); });
  if (!all) return;
  round_->manifest = RoundManifest();
  Commit();
}

void CoordinatorCore::Commit() {
  round_->commit_at_ms = 0;
  ++round_->commit_tries;
  const CheckpointName known = manifests_.empty() ? CheckpointName() : manifests_.front().name;
  Emit(CommitRound{round_->id, round_->directory, *round_->manifest, known, generation_.claimed()});
}

Manifest CoordinatorCore::RoundManifest() const {
  Manifest manifest;
  manifest.job_name = job_.name;
  manifest.job_json = state_.job_json;
  manifest.run_id = state_.run_id;
  manifest.complete = round_->complete;
  manifest.created_unix_ms = options_.started_unix_ms + (now_ms_ - started_ms_);
  manifest.plan = state_.plan;
  manifest.variables = state_.variables;
  manifest.partitions.resize(layout_.size());
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const SnapshotReply& reply = *round_->replies[i];
    manifest.files.push_back(
        {reply.file(), reply.bytes(), reply.crc32c(), ps_[i].description.boot_id()});
    for (const PartitionDescription& partition : reply.partitions()) {
      if (partition.id() >= manifest.partitions.size()) continue;  // ParseManifest would refuse it
      ManifestPartition& entry = manifest.partitions[partition.id()];
      entry.updates = partition.updates();
      entry.applied = partition.ledger().applied();
      entry.rejected = partition.ledger().rejected();
      entry.healthy = partition.healthy();
    }
  }
  for (size_t p = 0; p < layout_.size(); ++p) manifest.partitions[p].spec = layout_[p];
  manifest.name = {LeastApplied(manifest), generation_.claimed(), round_->id};
  manifest.summary = JsonOf(SummaryText("done", DoneReason()));
  manifest.summary["metric_names"] = state_.metric_names;
  const EvaluationResult* const best = evaluations_.Best();
  if (best != nullptr && job_.stop_when->restore_best &&
      HoldsBatches(manifest, BatchesUpTo(best->epoch + 1))) {
    manifest.summary["best"]["checkpoint"] = manifest.name.ToString();
  }
  uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  manifest.summary["checkpoints"] = {{"count", state_.counters.checkpoints + 1},
                                     {"last_step", manifest.name.step},
                                     {"bytes", bytes}};
  return manifest;
}

void CoordinatorCore::Handle(const RoundCommittedEvent& event) {
  if (absl::IsAborted(event.status) || absl::IsAlreadyExists(event.status)) {
    // The next life finds the final checkpoint and writes summary.json, should that be missing.
    return Leave(ExitCode::kFenced, std::string(event.status.message()));
  }
  if (!round_.has_value() || round_->id != event.round) return;
  const bool complete = round_->complete;
  if (!event.status.ok()) {
    // The manifest may stand there or not, and a ps that starts may leave because it says that the
    // job is done: only what cannot have been written is given up at once.
    PROBE("coordinator.commit.failed");
    const bool gone = absl::IsNotFound(event.status);
    if (gone || MUTANT("commit_is_not_repeated") ||
        (!complete && round_->commit_tries >= kCommitTries)) {
      return FailRound(std::string(event.status.message()));
    }
    checkpoint_problem_ = std::string(event.status.message());
    MakeRoom(checkpoint_problem_);
    round_->commit_at_ms = now_ms_ + kRepeatMs;
    return;
  }
  Manifest manifest = *std::move(round_->manifest);
  if (manifest.name.generation != generation_.claimed()) PROBE("coordinator.commit.late");
  Info(absl::StrCat("checkpoint ", manifest.name.ToString(), " in ", now_ms_ - round_->started_ms,
                    " ms"));
  if (!manifest.healthy()) Warn("the checkpoint holds values that are not finite");
  // Its last word is of what can be gone on from. The ps were asked a while ago.
  for (uint32_t i = 0; ending_.has_value() && i < ps_.size(); ++i) {
    *ps_[i].description.mutable_partitions() = round_->replies[i]->partitions();
  }
  round_.reset();
  checkpoint_problem_.clear();
  ++state_.counters.checkpoints;
  manifests_.insert(manifests_.begin(), std::move(manifest));
  RemoveOldCheckpoints(job_.checkpoint.keep);
  const int64_t every_ms = static_cast<int64_t>(job_.checkpoint.every_seconds * 1000);
  next_round_ms_ = now_ms_ + (phase_ == Phase::kFinishing ? 0 : every_ms);  // the final one
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    // Not to a new life of it, which this commit may find being loaded: it is not draining.
    const bool leaves = ps_[i].draining && !ps_[i].finished && ps_[i].stage == PsStage::kReady;
    if (leaves) FinishPs(i, ExitCode::kDrained, "drained");
  }
  if (complete) {
    complete_committed_ = true;
    nlohmann::json summary = manifests_.front().summary;
    summary.erase("metric_names");
    done_summary_ = TextOf(summary, 2) + "\n";
    Emit(WriteSummary{done_summary_, generation_.claimed()});
  } else if (ending_.has_value()) {
    SaveJobState();
    EndJob(ending_->code, ending_->status, absl::StrCat(ending_->reason, ", after a checkpoint"));
  } else {
    SaveJobState();
    if (std::exchange(best_wanted_, false)) ReadLedgers();
  }
}

void CoordinatorCore::FailRound(const std::string& why) {
  PROBE("coordinator.round.failed");
  MakeRoom(why);
  checkpoint_problem_ = why;
  Warn(absl::StrCat("checkpoint round ", round_->id, " failed: ", why));
  Emit(RemoveCheckpoints{{round_->directory}});
  // Once the commit has been tried the checkpoint may exist, under its own name.
  if (round_->manifest.has_value()) {
    Emit(RemoveUncommittedRound{round_->manifest->name.ToString()});
  }
  round_.reset();
  computed_at_round_.reset();
  for (Ps& ps : ps_) ps.snapshot_tag = 0;
  next_round_ms_ = now_ms_ + kRetryRoundMs;
  if (!best_wanted_ || ++best_failures_ < kBestTries) return;
  Warn("the best evaluation so far has no checkpoint: training goes on without it");
  best_wanted_ = false;
  ReadLedgers();
}

const Manifest* CoordinatorCore::BestCheckpoint() const {
  const EvaluationResult* const best = evaluations_.Best();
  if (best == nullptr) return nullptr;
  const uint64_t end = BatchesUpTo(best->epoch + 1);
  for (const Manifest& manifest : manifests_) {
    if (!unusable_.contains(manifest.name.ToString()) && HoldsBatches(manifest, end)) {
      return &manifest;
    }
  }
  return nullptr;
}

bool CoordinatorCore::LacksBestCheckpoint(uint64_t epoch) const {
  if (!job_.stop_when.has_value() || !job_.stop_when->restore_best) return false;
  const EvaluationResult* const best = evaluations_.Best();
  return best != nullptr && best->epoch + 1 == epoch && best_failures_ < kBestTries &&
         BestCheckpoint() == nullptr;
}

// A newer checkpoint is worth more than how many there are: one goes for each round that finds the
// disk full, the oldest first, and the newest never.
void CoordinatorCore::MakeRoom(const std::string& why) {
  const bool full = absl::StrContains(why, std::strerror(ENOSPC)) ||
                    absl::StrContains(why, std::strerror(EDQUOT));
  if (!full) return;
  const auto usable = std::count_if(
      manifests_.begin(), manifests_.end(),
      [&](const Manifest& manifest) { return !unusable_.contains(manifest.name.ToString()); });
  if (usable >= 2 && RemoveOldCheckpoints(static_cast<size_t>(usable) - 1)) {
    Warn("the disk is full: the oldest checkpoint makes room for the next");
  }
}

// Keeps the newest `keep`, and always the newest healthy one, and what restore_best asks for. One
// that holds what the next holds is replaced by it: a start that changes nothing costs no older
// ones. What could not be restored counts for none of them and stays: somebody may know how to read
// it. False: all are kept.
bool CoordinatorCore::RemoveOldCheckpoints(size_t keep) {
  RemoveCheckpoints removed;
  std::vector<Manifest> kept;
  size_t usable = 0;
  bool healthy_kept = false;
  std::optional<size_t> newer;  // of `kept`
  const Manifest* const best =
      job_.stop_when.has_value() && job_.stop_when->restore_best ? BestCheckpoint() : nullptr;
  const std::string best_name = best == nullptr ? "" : best->name.ToString();
  for (Manifest& manifest : manifests_) {
    if (unusable_.contains(manifest.name.ToString())) {
      kept.push_back(std::move(manifest));
      continue;
    }
    const bool replaced = newer.has_value() && SameProgress(kept[*newer], manifest);
    const bool among_newest = usable < keep && !replaced;
    const bool only_healthy = !healthy_kept && manifest.healthy();
    if (among_newest || only_healthy || manifest.name.ToString() == best_name) {
      ++usable;
      healthy_kept = healthy_kept || manifest.healthy();
      newer = kept.size();
      kept.push_back(std::move(manifest));
    } else {
      removed.directories.push_back(manifest.name.ToString());
    }
  }
  manifests_ = std::move(kept);
  if (removed.directories.empty()) return false;
  Emit(std::move(removed));
  return true;
}

}  // namespace paracord
