#include "coordinator/core/checkpoint_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "coordinator/core/limits.h"

namespace paracord {
namespace {

constexpr int64_t kRetryRoundMs = 5000;  // after a failed round
constexpr uint32_t kSnapshotTries = 3;   // for each ps of a round, in case messages are lost
constexpr uint32_t kCommitTries = 3;     // for checkpoints other than the final one
constexpr uint32_t kBestTries = 3;       // rounds for the best evaluation

}  // namespace

CheckpointRounds::CheckpointRounds(uint64_t last, double every_seconds, Effects& effects)
    : every_seconds_(every_seconds), effects_(effects), last_(last) {}

void CheckpointRounds::BeginLater(int64_t now_ms) {
  next_ms_ = now_ms + static_cast<int64_t>(every_seconds_ * 1000);
}

bool CheckpointRounds::Due(int64_t now_ms, bool at_once, uint64_t computed) const {
  if (round_.has_value() || now_ms < next_ms_) return false;
  // No periodic checkpoint is due if no batch was computed since the last round.
  return at_once || best_wanted_ || (every_seconds_ > 0 && computed_ != computed);
}

void CheckpointRounds::Begin(uint64_t generation, bool complete, size_t ps_count, uint64_t computed,
                             int64_t now_ms, std::optional<std::vector<std::string>> chain) {
  computed_ = computed;
  round_.emplace();
  round_->id = ++last_;
  round_->complete = complete;
  round_->directory = RoundDirectory(generation, round_->id);
  round_->replies.resize(ps_count);
  round_->tries.resize(ps_count);
  round_->started_ms = now_ms;
  round_->continued = chain.has_value();
  if (chain.has_value()) round_->chain = *std::move(chain);
  effects_.Emit(MakeRoundDirectory{round_->id, round_->directory, round_->chain});
}

SnapshotRequest CheckpointRounds::Ask(uint32_t ps) {
  ++round_->tries[ps];
  SnapshotRequest request;
  request.set_round(round_->id);
  request.set_directory(round_->directory);
  request.set_ps(ps);
  request.set_ps_count(static_cast<uint32_t>(round_->tries.size()));
  if (!round_->chain.empty()) request.set_base(round_->chain.front());
  request.set_continued(round_->continued);
  if (round_->cut.has_value()) request.set_cut(*round_->cut);
  return request;
}

void CheckpointRounds::SetCut(uint64_t cut, bool at_end) {
  round_->cut = cut;
  round_->at_end = at_end;
}

CheckpointRounds::SnapshotOutcome CheckpointRounds::TakeSnapshot(
    uint32_t ps, const absl::StatusOr<PsReply>& reply, bool ready) {
  if (!Collecting() || !round_->asked) return SnapshotOutcome::kIgnored;
  if (!reply.ok()) {
    const bool lost = absl::IsUnavailable(reply.status());
    return lost && ready && round_->tries[ps] < kSnapshotTries ? SnapshotOutcome::kAskAgain
                                                               : SnapshotOutcome::kFailed;
  }
  round_->replies[ps] = std::get<SnapshotReply>(*reply);
  const bool all =
      std::ranges::all_of(round_->replies, [](const auto& other) { return other.has_value(); });
  return all ? SnapshotOutcome::kAll : SnapshotOutcome::kTaken;
}

void CheckpointRounds::Commit(Manifest manifest, const CheckpointName& known, uint64_t generation) {
  round_->manifest = std::move(manifest);
  EmitCommit(known, generation);
}

bool CheckpointRounds::CommitDue(int64_t now_ms) const {
  return round_.has_value() && round_->commit_at_ms != 0 && now_ms >= round_->commit_at_ms;
}

void CheckpointRounds::CommitAgain(const CheckpointName& known, uint64_t generation) {
  EmitCommit(known, generation);
}

void CheckpointRounds::EmitCommit(const CheckpointName& known, uint64_t generation) {
  round_->commit_at_ms = 0;
  ++round_->commit_tries;
  effects_.Emit(CommitRound{round_->id, round_->directory, *round_->manifest, known, generation});
}

bool CheckpointRounds::CommitFailed(const absl::Status& status, int64_t now_ms) {
  PROBE("coordinator.commit.failed");
  const bool gone = absl::IsNotFound(status);
  if (gone || (!round_->complete && round_->commit_tries >= kCommitTries)) {
    return true;
  }
  problem_ = std::string(status.message());
  round_->commit_at_ms = now_ms + kRepeatMs;
  return false;
}

CheckpointRound CheckpointRounds::Finish(int64_t now_ms) {
  CheckpointRound done = *std::exchange(round_, std::nullopt);
  problem_.clear();
  took_ms_ = now_ms - done.started_ms;
  effects_.Info(absl::StrCat("checkpoint ", done.manifest->name.ToString(), " in ",
                             now_ms - done.started_ms, " ms"));
  if (!done.manifest->healthy()) {
    effects_.Warn("the checkpoint holds values that are not finite");
  }
  return done;
}

void CheckpointRounds::Repeat(const std::string& why, int64_t now_ms) {
  PROBE("coordinator.round.repeated");
  effects_.Info(absl::StrCat("checkpoint round ", round_->id, " is ordered anew: ", why));
  Drop();
  next_ms_ = now_ms;
}

void CheckpointRounds::Drop() {
  effects_.Emit(RemoveCheckpoints{{round_->directory}});
  // A commit that was tried may have made the checkpoint, under its own name.
  if (round_->manifest.has_value()) {
    ++given_up_;
    effects_.Emit(RemoveUncommittedRound{*std::move(round_->manifest)});
  }
  round_.reset();
  computed_.reset();
}

bool CheckpointRounds::Fail(const std::string& why, int64_t now_ms) {
  PROBE("coordinator.round.failed");
  problem_ = why;
  effects_.Warn(absl::StrCat("checkpoint round ", round_->id, " failed: ", why));
  Drop();
  next_ms_ = now_ms + kRetryRoundMs;
  if (!best_wanted_ || ++best_failures_ < kBestTries) return false;
  effects_.Warn("the best evaluation so far has no checkpoint: training goes on without it");
  best_wanted_ = false;
  return true;
}

bool CheckpointRounds::BestGivenUp() const { return best_failures_ >= kBestTries; }

}  // namespace paracord
