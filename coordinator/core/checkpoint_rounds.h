// Checkpoint rounds: a directory is made, each ps writes a snapshot at an instant of its own, and
// the manifest, which is written last, commits the checkpoint. Nothing of training waits for a
// round. Owned by the core, which says when one may begin, asks the ps for the snapshots, makes the
// manifest and hands on every answer.
//
// Invariants: at most one round is under way. Once its commit has been ordered the round is not
// given up unless that can have left nothing behind, or unless the checkpoint is not the final one.
// After a round that failed the next one waits, and counts as if everything had been computed
// since.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/events.h"
#include "storage/checkpoint.h"

namespace paracord {

// A checkpoint being written.
struct CheckpointRound {
  uint64_t id = 0;
  std::string directory;
  bool complete = false;             // the final one of a job that is done
  std::vector<std::string> chain;    // bases, the newest first; empty: full
  bool continued = false;            // a later one may continue it
  bool asked = false;                // its directory stands, and snapshots are ordered
  std::optional<uint64_t> cut;       // the state that it is of, in synchronous training
  bool at_end = false;               // the cut has been looked at since the job's end is planned
  std::optional<Manifest> manifest;  // set from the first commit on
  uint32_t commit_tries = 0;
  int64_t commit_at_ms = 0;                           // after a commit that failed; 0: none did
  std::vector<std::optional<SnapshotReply>> replies;  // index: ps
  std::vector<uint32_t> tries;                        // index: ps; calls made
  int64_t started_ms = 0;
};

class CheckpointRounds {
 public:
  // `last` is the number of the newest round of earlier coordinators. A periodic round begins
  // `every_seconds` after the one before it; 0: never.
  CheckpointRounds(uint64_t last, double every_seconds, Effects& effects);

  bool running() const { return round_.has_value(); }
  bool IsRunning(uint64_t id) const { return round_.has_value() && round_->id == id; }
  // Whether the round under way still needs its ps: its commit has not been ordered.
  bool Collecting() const { return round_.has_value() && !round_->manifest.has_value(); }
  // Whether a checkpoint may come to be that is not known yet: its commit is under way, or has
  // failed in a way that does not say whether it stands.
  bool Unsettled() const {
    return (round_.has_value() && round_->manifest.has_value()) || given_up_ > 0;
  }
  // The round under way.
  const CheckpointRound& round() const { return *round_; }
  // How long the newest round that was committed took; nullopt: none was, in this life.
  std::optional<int64_t> took_ms() const { return took_ms_; }
  // Why the newest checkpoint is not written, for people; empty if it is.
  const std::string& problem() const { return problem_; }

  // The next round may begin now, or `every_seconds` from now.
  void MayBegin(int64_t now_ms) { next_ms_ = now_ms; }
  void BeginLater(int64_t now_ms);
  // Whether a round is to begin: `at_once`, or because the time has come and batches were computed
  // since the last one. `computed` counts the batches that were computed in all.
  bool Due(int64_t now_ms, bool at_once, uint64_t computed) const;
  // `chain`: the base of an incremental checkpoint and the bases below it, the newest first; empty:
  // a full checkpoint. nullopt: a full checkpoint that no later checkpoint may use as a base.
  void Begin(uint64_t generation, bool complete, size_t ps_count, uint64_t computed, int64_t now_ms,
             std::optional<std::vector<std::string>> chain = std::nullopt);
  // The directory of the round under way stands: snapshots are to be asked for.
  void DirectoryMade() { round_->asked = true; }
  // It is of this state. `at_end`: which is the one that a planned end is to leave.
  void SetCut(uint64_t cut, bool at_end);
  void LookedAtEnd() { round_->at_end = true; }
  // It is full after all: one of its chain is gone.
  void ContinueNone() { round_->chain.clear(); }
  // The order for a snapshot of this ps, without its fence. A repeated order gets the same answer.
  SnapshotRequest Ask(uint32_t ps);

  enum class SnapshotOutcome { kIgnored, kAskAgain, kFailed, kTaken, kAll };
  // Takes the answer of a ps, which is `ready` or not. kAskAgain: the message was lost. kAll: all
  // snapshots are written, and Commit is to follow.
  SnapshotOutcome TakeSnapshot(uint32_t ps, const absl::StatusOr<PsReply>& reply, bool ready);

  // Orders the commit of `manifest`, which all snapshots are part of. `known` is the newest
  // checkpoint that is committed.
  void Commit(Manifest manifest, const CheckpointName& known, uint64_t generation);
  bool CommitDue(int64_t now_ms) const;
  void CommitAgain(const CheckpointName& known, uint64_t generation);
  // Whether a failed commit ends the round; the caller then calls Fail. After most errors the
  // manifest may exist all the same, and a starting ps exits if it reads there that the job is
  // done, so a round is abandoned at once only if the manifest cannot have been written. False:
  // repeat the commit.
  bool CommitFailed(const absl::Status& status, int64_t now_ms);
  // The round under way is committed; returns it.
  CheckpointRound Finish(int64_t now_ms);
  // Gives up the round under way. True if it was the last that was to hold the best evaluation so
  // far: training goes on without such a checkpoint.
  bool Fail(const std::string& why, int64_t now_ms);
  // Gives up the round under way, of a cut that cannot be taken: the next one may begin at once.
  void Repeat(const std::string& why, int64_t now_ms);

  // An abandoned round whose commit had been tried is known to be committed or removed.
  void Settled() { given_up_ -= given_up_ > 0 ? 1 : 0; }

  // The next round is to hold what the best evaluation so far scored, and training waits for it.
  void WantBest(bool wanted) { best_wanted_ = wanted; }
  bool best_wanted() const { return best_wanted_; }
  bool TakeBestWanted() { return std::exchange(best_wanted_, false); }
  // Whether rounds for the best checkpoint failed so often that no further round is tried.
  bool BestGivenUp() const;
  // There is a new result, which may be the best.
  void NewResult() { best_failures_ = 0; }

 private:
  // Lets go of the round under way.
  void Drop();
  void EmitCommit(const CheckpointName& known, uint64_t generation);

  const double every_seconds_;
  Effects& effects_;
  std::optional<CheckpointRound> round_;
  uint64_t last_;
  int64_t next_ms_ = 0;
  std::optional<uint64_t> computed_;  // when the newest round began; nothing after one that failed
  std::string problem_;
  std::optional<int64_t> took_ms_;
  bool best_wanted_ = false;
  uint32_t best_failures_ = 0;
  uint32_t given_up_ = 0;  // commits of which it is not known whether they stand
};

}  // namespace paracord
