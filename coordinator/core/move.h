// A move of a running job's partitions to another list of ps, requested by `paracord scale`, or
// begun by the coordinator to give partitions second holders. The new ps are checked, training
// stops with a checkpoint of everything trained, the new layout is written into job.state
// (job_state.h), and the ps load partitions by the new layout. The write of the layout decides:
// until it is durable the job is in the old layout, and from then on in the new one, whichever
// process dies. The coordinator's core owns the Move, calls the functions below (core_move.cc), and
// does all I/O.
//
// Invariants: at most one move is under way. Nothing is trained between the closing checkpoint and
// the write of the layout. A coordinator that dies leaves no move behind: the next coordinator
// finds either the old or the new layout.
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
    kPreparing,  // the ps that get partitions read them from checkpoints, while training goes on
    kStopping,   // synchronous training goes on up to the state of the closing checkpoint
    kClosing,    // in asynchronous training: a new generation, without workers, writes the closing
                 // checkpoint
    kChecking,   // the closing checkpoint is committed; all ps are asked for a sign of life
    kWriting,    // the new layout is being written
    kSettling,   // the ps load by the new layout
  };

  // The target layout, and how many partitions of how many bytes get another first holder. `heals`:
  // the coordinator began the move, in synchronous training; all first holders stay, and
  // `partitions` partitions get second holders.
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
  // Texts for people: the name of the move, such as "the move to 3 ps"; the message that the move
  // is done; and the reason why training stops, such as "the job moves to 3 ps".
  std::string Name() const;
  std::string DoneText() const;
  std::string Why() const;

  // Whether training is being stopped, or has stopped, for the closing checkpoint and the write of
  // the layout.
  bool holds_training() const {
    return phase_ == Phase::kStopping || phase_ == Phase::kClosing || phase_ == Phase::kChecking ||
           phase_ == Phase::kWriting;
  }
  // Whether workers are kept out until the layout is written: from Close or BeginClosed on. In
  // synchronous training Stop comes instead of Close, and workers stay in.
  bool closed() const { return closed_ && holds_training(); }

  // Whether no worker gets a session: closed(), or the ps load by the new layout.
  bool keeps_workers_out() const { return closed() || phase_ == Phase::kSettling; }

  // From now on the ps that get partitions prepare them from `checkpoint`; "": from a checkpoint
  // that is still to be written.
  void Prepare(const std::string& checkpoint, int64_t now_ms);
  // The checkpoint that the ps prepare; empty: none yet.
  const std::string& preparing() const { return preparing_; }
  // Called when all ps that get partitions have prepared `preparing()`. Returns whether training
  // may stop now. It may stop from the second preparation on, if the newest one took less than a
  // second, or took at least 90 % of the time of the one before, or was the sixth. What changes
  // after the last preparation is written and read while training stands still, so preparations are
  // repeated while they get shorter.
  bool Prepared(int64_t now_ms);
  // Asks for a newer checkpoint, to be written at once and then prepared.
  void WantCheckpoint(int64_t now_ms);
  void CheckpointTaken() { wants_checkpoint_ = false; }
  bool wants_checkpoint() const { return phase_ == Phase::kPreparing && wants_checkpoint_; }

  void Stop(int64_t now_ms);
  void Close(int64_t now_ms);
  // The closing checkpoint is committed: the ps of the new layout are asked for a sign of life.
  void Check() { phase_ = Phase::kChecking; }
  // The new layout is being written, in place of `before`.
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
  // A try of the move has failed, for example because the closing checkpoint failed or a ps was
  // lost. True if the move is tried again; false if this was the third try: the move is given up,
  // and the old layout stays.
  bool Again(const std::string& why, int64_t now_ms);
  // Sets why a ps of the new layout is not there yet; "": all are there.
  void WaitFor(const std::string& why) { waits_for_ = why; }
  // Ends the move under way; `why` is the reason for people.
  void GiveUp(const std::string& why);

  // Describes for people the move under way, or else the newest one; null if there was none. Keys:
  // "phase", "ps", "version", "partitions", "bytes"; "copies" if the move `heals`; unless the move
  // was given up, "seconds" from the request to its end or to now, and "stopped_seconds", for which
  // training has stood still, if it has; and "problem" if there is one.
  nlohmann::json ToJson(int64_t now_ms) const;

 private:
  Phase phase_ = Phase::kNone;
  Plan plan_;
  bool closed_ = false;
  std::optional<Layout> before_;
  std::string preparing_;
  uint32_t preparations_ = 0;
  std::optional<int64_t> wanted_ms_;  // since when a newer checkpoint is wanted
  // The start of the newest preparation, which includes the writing of its checkpoint.
  int64_t prepare_ms_ = 0;
  std::optional<int64_t> took_ms_;  // duration of the newest finished preparation
  // Of the newest finished preparation: whether Prepared has counted it, and what Prepared
  // returned.
  bool counted_ = false, enough_ = false;
  bool wants_checkpoint_ = false;
  uint32_t tries_ = 0;                   // failed tries
  int64_t asked_ms_ = 0, since_ms_ = 0;  // when the move was requested; when this try began
  std::optional<int64_t> stopped_ms_, done_ms_;
  std::string problem_;    // why the last try failed, or why the move was given up
  std::string waits_for_;  // why a ps of the new layout is not there yet
};

}  // namespace paracord
