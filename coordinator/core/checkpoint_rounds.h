// Checkpoint rounds: a directory is made, each ps writes a snapshot (of an instant of its choice,
// or in synchronous training of the state that the round sets), and the manifest, written last,
// commits the checkpoint. Training goes on meanwhile, except during the checkpoint of the best
// evaluation, and where a checkpoint is to end training or let it pause (core.h, EndIsPlanned).
// Owned by the core, which says when a round may begin, asks the ps for snapshots, makes the
// manifest and hands on every answer.
//
// Invariants: at most one round is under way. Once the commit of the job's final checkpoint has
// been ordered, its round is abandoned only if the commit cannot have left a manifest behind. After
// a failed round the next round waits 5 s, unless MayBegin is called, and is due even if no batch
// has been computed since.
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

// A checkpoint round that is under way.
struct CheckpointRound {
  uint64_t id = 0;
  std::string directory;
  bool complete = false;  // whether this is the final checkpoint of a job that is done
  // The bases of the checkpoint, newest first; empty: it is a full checkpoint.
  std::vector<std::string> chain;
  // Whether a later checkpoint may be based on this one.
  bool continued = false;
  bool asked = false;  // the directory exists; snapshots may be ordered
  // In synchronous training, the state (cuts.h) of all partitions in the snapshots.
  std::optional<uint64_t> cut;
  bool at_end = false;               // the cut was set or checked after an end was planned
  std::optional<Manifest> manifest;  // set when a commit is first ordered
  uint32_t commit_tries = 0;
  int64_t commit_at_ms = 0;  // when to repeat a commit that failed; 0: there is none
  // The snapshots of the ps that write a file; index: the number of the file. A ps that is the
  // first holder (layout.h) of no partition writes none.
  std::vector<std::optional<SnapshotReply>> replies;
  std::vector<uint32_t> tries;  // index as in `replies`; how often the snapshot was ordered
  int64_t started_ms = 0;
};

class CheckpointRounds {
 public:
  // `last` is the round number of the newest checkpoint of earlier coordinators. `every_seconds` is
  // the time between periodic rounds; 0: there are none.
  CheckpointRounds(uint64_t last, double every_seconds, Effects& effects);

  bool running() const { return round_.has_value(); }
  bool IsRunning(uint64_t id) const { return round_.has_value() && round_->id == id; }
  // Whether the round under way still needs the ps, because no commit has been ordered.
  bool Collecting() const { return round_.has_value() && !round_->manifest.has_value(); }
  // Whether a checkpoint may appear that the core does not know yet: a commit is under way, or a
  // round was abandoned without knowing whether its manifest was written.
  bool Unsettled() const {
    return (round_.has_value() && round_->manifest.has_value()) || given_up_ > 0;
  }
  // The round under way. Call only if running().
  const CheckpointRound& round() const { return *round_; }
  // How long the newest committed round took; nullopt: this coordinator has committed none.
  std::optional<int64_t> took_ms() const { return took_ms_; }
  // For people: the newest failure of a round or commit since the last checkpoint; empty: none.
  const std::string& problem() const { return problem_; }

  // The next round may begin from now on (MayBegin), or in `every_seconds` (BeginLater).
  void MayBegin(int64_t now_ms) { next_ms_ = now_ms; }
  void BeginLater(int64_t now_ms);
  // Whether a round is to begin: none is under way, the next one may begin, and a round is wanted
  // `at_once`, for the best evaluation, or as a periodic one. No periodic round is wanted if no
  // batch has been computed since the last round began, unless that round failed. `computed` is the
  // number of batches computed in all.
  bool Due(int64_t now_ms, bool at_once, uint64_t computed) const;
  // `ps_count` is the number of ps that write files; `chain`: the bases of an incremental
  // checkpoint, newest first; empty: a full checkpoint. nullopt: a full checkpoint that no later
  // checkpoint may use as a base.
  void Begin(uint64_t generation, bool complete, size_t ps_count, uint64_t computed, int64_t now_ms,
             std::optional<std::vector<std::string>> chain = std::nullopt);
  // The directory of the round under way exists: snapshots may be ordered.
  void DirectoryMade() { round_->asked = true; }
  // Sets the state that the round saves. `at_end`: an end of training is planned.
  void SetCut(uint64_t cut, bool at_end);
  void LookedAtEnd() { round_->at_end = true; }
  // Makes the round under way a full checkpoint, because one of its bases is gone.
  void ContinueNone() { round_->chain.clear(); }
  // Returns the order for the snapshot with file number `ps`; the caller adds run id, generation
  // and boot id. A ps gives a repeated order the same answer.
  SnapshotRequest Ask(uint32_t ps);

  enum class SnapshotOutcome { kIgnored, kAskAgain, kFailed, kTaken, kAll };
  // Takes a ps's answer about file number `ps`; `ready`: whether that ps holds its partitions.
  // kIgnored: the round awaits no snapshots. kAskAgain: the order or its answer was lost, the ps is
  // `ready`, and fewer than three orders were sent. kAll: all snapshots are written, and the caller
  // calls Commit.
  SnapshotOutcome TakeSnapshot(uint32_t ps, const absl::StatusOr<PsReply>& reply, bool ready);

  // Orders the commit of `manifest`, which lists all snapshots. `known` is the newest committed
  // checkpoint that the core knows.
  void Commit(Manifest manifest, const CheckpointName& known, uint64_t generation);
  bool CommitDue(int64_t now_ms) const;
  void CommitAgain(const CheckpointName& known, uint64_t generation);
  // Takes the error of a commit. True if the round has failed, and the caller calls Fail: the
  // directory is gone, or three commits failed and the checkpoint is not the job's last. Else the
  // commit is repeated after a second. The commit of the last checkpoint is repeated without end,
  // because its manifest may have been written, and a ps that starts exits if a manifest marks the
  // job as done.
  bool CommitFailed(const absl::Status& status, int64_t now_ms);
  // Ends the round under way after its commit, and returns the round.
  CheckpointRound Finish(int64_t now_ms);
  // Abandons the round under way. True if this was the third failed round for the best evaluation:
  // training goes on without a checkpoint of it.
  bool Fail(const std::string& why, int64_t now_ms);
  // Abandons the round under way because its cut cannot be reached; the next may begin at `now_ms`.
  void Repeat(const std::string& why, int64_t now_ms);

  // The storage has been asked whether the commit of an abandoned round took effect.
  void Settled() { given_up_ -= given_up_ > 0 ? 1 : 0; }

  // `wanted`: the next round has to save what the best evaluation scored; training waits for it.
  void WantBest(bool wanted) { best_wanted_ = wanted; }
  bool best_wanted() const { return best_wanted_; }
  bool TakeBestWanted() { return std::exchange(best_wanted_, false); }
  // Whether rounds for the best evaluation failed so often that no further round is tried.
  bool BestGivenUp() const;
  // A new evaluation result has come: rounds for the best evaluation may be tried again.
  void NewResult() { best_failures_ = 0; }

 private:
  // Forgets the round under way, and orders the removal of its directory.
  void Drop();
  void EmitCommit(const CheckpointName& known, uint64_t generation);

  const double every_seconds_;
  Effects& effects_;
  std::optional<CheckpointRound> round_;
  uint64_t last_;
  int64_t next_ms_ = 0;
  // The number of batches computed in all when the newest round began; nullopt after a failure.
  std::optional<uint64_t> computed_;
  std::string problem_;
  std::optional<int64_t> took_ms_;
  bool best_wanted_ = false;
  uint32_t best_failures_ = 0;
  uint32_t given_up_ = 0;  // abandoned rounds whose commit may have taken effect
};

}  // namespace paracord
