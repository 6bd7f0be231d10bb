// Checkpoints: the start of a round, its manifest, and the steps after its commit.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/probe.h"
#include "config/partitions.h"
#include "coordinator/core/core.h"
#include "coordinator/core/early_stop.h"
#include "coordinator/core/report.h"

namespace paracord {
namespace {

constexpr int64_t kAtEndMs = 200;  // the pause before a late cut at a planned end is repeated

// Makes the manifest of the round under way, all of whose snapshots are written.
Manifest ManifestOf(const JobView& job, int64_t now_ms) {
  const CheckpointRound& round = job.rounds.round();
  Manifest manifest;
  manifest.job_name = job.options.job.name;
  manifest.job_json = job.record.job_json();
  manifest.run_id = job.record.run_id();
  manifest.complete = round.complete;
  manifest.created_unix_ms = job.options.started_unix_ms + (now_ms - job.phases.started_ms());
  manifest.plan = job.record.plan();
  manifest.variables = job.record.variables();
  const std::vector<PartitionSpec>& layout = job.ps.layout();
  manifest.partitions.resize(layout.size());
  for (uint32_t i = 0; i < job.ps.size(); ++i) {
    if (job.ps.FileOf(i) == kNobody) continue;
    const SnapshotReply& reply = *round.replies[job.ps.FileOf(i)];
    manifest.files.push_back(
        {reply.file(), reply.bytes(), reply.crc32c(), job.ps.all()[i].description.boot_id()});
    for (const PartitionDescription& partition : reply.partitions()) {
      if (partition.id() >= manifest.partitions.size()) continue;  // ParseManifest would refuse it
      ManifestPartition& entry = manifest.partitions[partition.id()];
      entry.updates = partition.updates();
      entry.applied = partition.ledger().applied();
      entry.rejected = partition.ledger().rejected();
      entry.healthy = partition.healthy();
      entry.delta = partition.delta();
      if (entry.delta && !round.chain.empty()) manifest.base = round.chain.front();
    }
  }
  for (size_t p = 0; p < layout.size(); ++p) {
    manifest.partitions[p].spec = layout[p];
    manifest.partitions[p].spec.set_ps(job.ps.FileOf(layout[p].ps()));
    manifest.partitions[p].spec.clear_copies();  // a checkpoint has one file for each partition
  }
  const Report report(job, now_ms);
  manifest.name = {LeastApplied(manifest), job.generation.claimed(), round.id};
  manifest.summary = JsonOf(report.SummaryText("done", report.DoneReason()));
  manifest.summary["metric_names"] = job.record.metric_names();
  manifest.summary["history_open"] = job.history.SaveOpen(now_ms);
  const EvaluationResult* const best = job.evaluations.KeptBest();
  if (best != nullptr && HoldsBatches(manifest, job.Extent().BatchesUpTo(best->epoch + 1))) {
    manifest.summary["best"]["checkpoint"] = manifest.name.ToString();
  }
  uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  manifest.summary["checkpoints"] = {{"count", job.record.counters().checkpoints + 1},
                                     {"last_step", manifest.name.step},
                                     {"bytes", bytes}};
  return manifest;
}

// Returns the name of the checkpoint kept for the best evaluation, or "".
std::string KeptForBest(const JobView& job) {
  const Manifest* const best = job.BestCheckpoint();
  return best == nullptr ? "" : best->name.ToString();
}

}  // namespace

void CoordinatorCore::DriveRounds() {
  // While we claim a generation, a commit in the earlier one would look fenced by another
  // coordinator.
  if (rounds_.CommitDue(now_ms_) && !generation_.claiming()) {
    rounds_.CommitAgain(checkpoints_.newest_name(), generation_.claimed());
  }
  if (!record_.fixed() || !ps_.AllAre(PsState::kReady) || summary_writer_.done()) return;
  if (move_.Is(Move::Phase::kChecking) || move_.Is(Move::Phase::kWriting)) return;
  CheckCutAtEnd();
  if (!phases_.serving() && !Closed()) return;
  if (move_.closed() && !Closed()) return;
  const bool at_once =
      phases_.now() == Phase::kFinishing || EndIsPlanned() || move_.wants_checkpoint();
  if (!rounds_.Due(now_ms_, at_once, record_.counters().computed)) return;
  const bool complete = phases_.now() == Phase::kFinishing && !ps_.reading();
  std::optional<std::vector<std::string>> chain;
  if (HasTables() && FullEvery() > 1 && (!complete || checkpoints_.continues_instead())) {
    chain = checkpoints_.Continued(FullEvery());
  }
  rounds_.Begin(generation_.claimed(), complete, ps_.writers(), record_.counters().computed,
                now_ms_, std::move(chain));
}

// While an asynchronous job moves, at most every eighth checkpoint is full, even if the job sets a
// smaller full_every: an incremental last checkpoint holds only the changes since the new ps
// prepared.
uint32_t CoordinatorCore::FullEvery() const {
  constexpr uint32_t kWhileMoving = 8;
  const uint32_t said = job_.checkpoint.full_every;
  return move_.under_way() && !job_.guarantees.sync() ? std::max(said, kWhileMoving) : said;
}

void CoordinatorCore::Handle(const RoundDirectoryMadeEvent& event) {
  if (!rounds_.IsRunning(event.round)) return;
  if (!event.status.ok()) return FailRound(std::string(event.status.message()));
  if (!event.gone.empty()) {
    effects_.Warn(absl::StrCat("checkpoint ", event.gone,
                               ", which the next ones were to continue, ",
                               "is gone from DIR: the next one is full"));
    checkpoints_.Lose(event.gone, rounds_.round().chain);
    rounds_.ContinueNone();
  }
  rounds_.DirectoryMade();
  // At a planned end the ps are first asked for their states.
  if (job_.guarantees.sync() && EndIsPlanned()) return ReadLedgers();
  OrderSnapshots();
}

void CoordinatorCore::OnSnapshot(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  const bool ready = ps_.all()[index].state == PsState::kReady;
  if (reply.ok() && OfOtherState(index, std::get<SnapshotReply>(*reply))) return;
  switch (rounds_.TakeSnapshot(ps_.FileOf(index), reply, ready)) {
    case CheckpointRounds::SnapshotOutcome::kIgnored:
    case CheckpointRounds::SnapshotOutcome::kTaken:
      return;
    case CheckpointRounds::SnapshotOutcome::kAskAgain:
      return AskSnapshot(index);
    case CheckpointRounds::SnapshotOutcome::kFailed: {
      const std::string why =
          absl::StrCat("ps:", index, ": ", std::string(reply.status().message()));
      const bool late = rounds_.round().cut.has_value() && absl::IsOutOfRange(reply.status());
      // The present leases end soon, at the same round.
      if (late && rounds_.round().at_end) return RepeatRound(why, kAtEndMs);
      return late && cuts_.OutOfRange() ? RepeatRound(why, 0) : FailRound(why);
    }
    case CheckpointRounds::SnapshotOutcome::kAll:
      cuts_.Taken();
      return rounds_.Commit(ManifestOf(View(), now_ms_), checkpoints_.newest_name(),
                            generation_.claimed());
  }
}

void CoordinatorCore::Handle(const RoundCommittedEvent& event) {
  if (absl::IsAborted(event.status) || absl::IsAlreadyExists(event.status)) {
    // If summary.json is missing, the next coordinator writes it from the final checkpoint.
    return Leave(ExitCode::kFenced, std::string(event.status.message()));
  }
  if (!rounds_.IsRunning(event.round)) return;
  if (!event.status.ok()) {
    const std::string why(event.status.message());
    if (rounds_.CommitFailed(event.status, now_ms_)) return FailRound(why);
    MakeRoom(why);
    return;
  }
  CheckpointRound round = rounds_.Finish(now_ms_);
  if (round.manifest->name.generation != generation_.claimed()) PROBE("coordinator.commit.late");
  // The final report of an ending job tells what is in its checkpoint; the descriptions of the ps
  // are older.
  for (uint32_t i = 0; end_.planned() && i < ps_.size(); ++i) {
    // Second holders may have become first holders meanwhile.
    if (ps_.FileOf(i) < round.replies.size()) ps_.SetPartitions(i, *round.replies[ps_.FileOf(i)]);
  }
  ++record_.counters().checkpoints;
  TakeClosingCheckpoint(round);
  move_.CheckpointTaken();
  checkpoints_.Add(*std::move(round.manifest));
  std::vector<std::string> removed =
      checkpoints_.Thin(job_.checkpoint.keep, KeptForBest(View()), ps_.CheckpointsInUse());
  if (!removed.empty()) effects_.Emit(RemoveCheckpoints{std::move(removed)});
  if (phases_.now() == Phase::kFinishing) {
    rounds_.MayBegin(now_ms_);  // the final checkpoint
  } else {
    rounds_.BeginLater(now_ms_);
  }
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    // A restarted ps, which may be loading at this commit, is not draining.
    const Ps& ps = ps_.all()[i];
    const bool leaves = ps.draining && !ps.finished && ps.state == PsState::kReady;
    if (leaves) ps_.Finish(i, ExitCode::kDrained, "drained");
  }
  if (round.complete) {
    nlohmann::json summary = checkpoints_.newest()->summary;
    summary.erase("metric_names");
    summary_writer_.SayDone(TextOf(summary, 2) + "\n", generation_);
  } else if (end_.planned()) {
    SaveJobState();
    const Ending& ending = end_.ending();
    EndJob(ending.code, ending.status, absl::StrCat(ending.reason, ", after a checkpoint"));
  } else {
    // Otherwise the write of the layout, which is about to follow, saves everything.
    if (!move_.Is(Move::Phase::kChecking)) SaveJobState();
    if (rounds_.TakeBestWanted()) ReadLedgers();
  }
}

void CoordinatorCore::Handle(const RoundGivenUpEvent& event) {
  rounds_.Settled();
  const std::string name = event.manifest.name.ToString();
  if (!event.stands.ok()) {
    checkpoints_.Doubt(name, std::string(event.stands.status().message()));
  } else if (*event.stands) {
    effects_.Info(absl::StrCat("checkpoint ", name, " stands all the same"));
    ++record_.counters().checkpoints;
    checkpoints_.Add(event.manifest);
  }
}

void CoordinatorCore::FailRound(const std::string& why) {
  bool helped = MakeRoom(why);
  const bool continues = !helped && rounds_.running() && rounds_.round().chain.empty() &&
                         checkpoints_.ContinueInstead(why, job_.checkpoint.full_every);
  if (continues) {
    helped = true;
    effects_.Warn(
        absl::StrCat("the disk has no room for a full checkpoint: the next ones continue ",
                     checkpoints_.Continued(job_.checkpoint.full_every).front()));
  }
  ps_.ForgetSnapshots();
  if (rounds_.Fail(why, now_ms_)) ReadLedgers();
  if (continues) rounds_.MayBegin(now_ms_);  // the changes grow until then
  const bool prepares = move_.Is(Move::Phase::kPreparing) && !generation_.claiming() && !helped;
  if (move_.holds_training() || prepares) MoveAgain(why);
}

// Returns whether a checkpoint is removed.
bool CoordinatorCore::MakeRoom(const std::string& why) {
  std::vector<std::string> removed = checkpoints_.MakeRoom(why, KeptForBest(View()));
  if (removed.empty()) return false;
  effects_.Emit(RemoveCheckpoints{std::move(removed)});
  effects_.Warn("the disk is full: the oldest checkpoint makes room for the next");
  return true;
}

}  // namespace paracord
