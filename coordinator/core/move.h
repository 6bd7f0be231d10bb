// A move of a running job's partitions to another list of ps, requested by `paracord scale`: the
// new ps are checked, training stops with a checkpoint of everything trained, the new layout is
// written into job.state, and all ps load by it. The durable write of the layout is the moment of
// the move: before it the old ps hold the job, afterwards the new ones, whichever process dies.
// Owned by the core (core_move.cc), which makes the decisions. Emits no effects.
//
// Invariants: at most one move is under way. Nothing is trained between the closing checkpoint and
// the write of the layout. A coordinator that dies leaves no move behind: its successor finds
// either the old or the new layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/core/layout.h"
#include "nlohmann/json.hpp"

namespace paracord {

class Move {
 public:
  enum class Phase {
    kNone,
    kLooking,    // the new ps are checked, while training goes on
    kPreparing,  // the new ps read their partitions from checkpoints, while training goes on
    kStopping,   // synchronous training goes on to the state of the closing checkpoint
    kClosing,    // a new generation, without workers, writes the closing checkpoint
    kChecking,   // the closing checkpoint is committed; all ps of the new layout are asked for a
                 // sign of life
    kWriting,    // the new layout is being written
    kSettling,   // the ps load by the new layout
  };

  // The target, and what moves there. `heals`: nothing moves; in synchronous training `partitions`
  // partitions get second holders.
  struct Plan {
    Layout to;
    uint64_t partitions = 0, bytes = 0;
    bool heals = false;
  };

  void Begin(Plan plan, int64_t now_ms);
  bool under_way() const { return phase_ != Phase::kNone; }
  bool Is(Phase phase) const { return phase_ == phase; }
  // The plan of the move under way, or of the newest move.
  const Plan& plan() const { return plan_; }
  int64_t since_ms() const { return since_ms_; }
  bool heals() const { return plan_.heals; }
  // Texts for people: the name of the move, such as "the move to 3 ps"; the message when it is
  // done; and why training stops for it.
  std::string Name() const;
  std::string DoneText() const;
  std::string Why() const;

  // Training stops, or has stopped, for the closing checkpoint and the write of the layout.
  bool holds_training() const {
    return phase_ == Phase::kStopping || phase_ == Phase::kClosing || phase_ == Phase::kChecking ||
           phase_ == Phase::kWriting;
  }
  // The present generation has no workers: it only writes the closing checkpoint and the layout.
  bool closed() const { return closed_ && holds_training(); }

  // No worker gets a session: training has stopped, or the ps are loading by the new layout.
  bool keeps_workers_out() const { return closed() || phase_ == Phase::kSettling; }

  // From now on the ps that get partitions prepare `checkpoint`.
  void Prepare(const std::string& checkpoint, int64_t now_ms);
  // The checkpoint that is being prepared; empty: none yet.
  const std::string& preparing() const { return preparing_; }
  // All ps that get partitions have prepared the checkpoint. True if training may stop now:
  // preparation took almost no time, or no less than the previous one, or this was the last try.
  // Training stands still while the changes since the last preparation are written and read with
  // the closing checkpoint, so preparations repeat while they get shorter.
  bool Prepared(int64_t now_ms);
  // Asks for a newer checkpoint at once, to be prepared.
  void WantCheckpoint(int64_t now_ms);
  void CheckpointTaken() { wants_checkpoint_ = false; }
  bool wants_checkpoint() const { return phase_ == Phase::kPreparing && wants_checkpoint_; }

  void Stop(int64_t now_ms);
  void Close(int64_t now_ms);
  // The closing checkpoint is committed: the ps of the new layout are asked for a sign of life.
  void Check() { phase_ = Phase::kChecking; }
  // All ps have answered: the new layout is to be written in place of `before`.
  void Write(std::optional<Layout> before) {
    phase_ = Phase::kWriting;
    before_ = std::move(before);
  }
  const std::optional<Layout>& before() const { return before_; }
  // Begins a new move whose layout is written at once, in place of `before`: training has not run
  // since the closing checkpoint of the previous move.
  void BeginClosed(Plan plan, std::optional<Layout> before, int64_t now_ms);
  void Settle() { phase_ = Phase::kSettling; }
  void Done(int64_t now_ms);
  // The closing checkpoint failed, or a ps was lost. True if the move is tried again; false: this
  // was the last try, and the old layout stays.
  bool Again(const std::string& why, int64_t now_ms);
  // Sets why a ps of the new layout is not there yet; "": all are there.
  void WaitFor(const std::string& why) { waits_for_ = why; }
  void GiveUp(const std::string& why);

  // Describes for people the move under way, or else the newest one; null if there was none. Keys:
  // "phase", "ps", "version", "partitions", "bytes"; "copies" if partitions only get second
  // holders; "seconds" since the request; and if known "stopped_seconds" and "problem".
  nlohmann::json ToJson(int64_t now_ms) const;

 private:
  Phase phase_ = Phase::kNone;
  Plan plan_;
  bool closed_ = false;
  std::optional<Layout> before_;
  std::string preparing_;
  uint32_t preparations_ = 0;
  std::optional<int64_t> wanted_ms_;  // when the next checkpoint was asked for
  int64_t prepare_ms_ = 0;            // the start of the newest preparation, with its checkpoint
  std::optional<int64_t> took_ms_;    // duration of the preparation before it
  // Of the finished preparation: whether Prepared has counted it, and what it returned.
  bool counted_ = false, enough_ = false;
  bool wants_checkpoint_ = false;
  uint32_t tries_ = 0;
  int64_t asked_ms_ = 0, since_ms_ = 0;  // the request; the start of this try
  std::optional<int64_t> stopped_ms_, done_ms_;
  std::string problem_;    // why the last try failed, or the move was given up
  std::string waits_for_;  // while the move is under way
};

}  // namespace paracord
