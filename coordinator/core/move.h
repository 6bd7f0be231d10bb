// A move of a running job's partitions to another list of ps, which `paracord scale` asks for:
// the new ps are looked at, training stops with a checkpoint of exactly what it has come to, the
// layout is written into job.state, and all ps load by it. The durable layout is the moment of the
// move: before it the old ps hold the job, after it the new ones, whoever dies. Owned by the core
// (core_move.cc), which says what happens. It emits nothing itself.
//
// Invariants: at most one move is under way. Nothing is trained from the closing checkpoint to the
// layout that is written after it. A coordinator that dies leaves no move behind: its successor
// finds the old layout or the new one.
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
    kLooking,    // the new ps are looked at, while training goes on
    kPreparing,  // they read from checkpoints what will be theirs, while training goes on
    kStopping,   // synchronous training comes to the state of the closing checkpoint
    kClosing,    // a new generation, without workers, writes the closing checkpoint
    kChecking,   // it is committed, and the ps of the new layout are asked whether they are there
    kWriting,    // the layout is being written
    kSettling,   // the ps load by the new layout
  };

  // A target, and for people what moves there. `heals`: no partition moves, and those counted get
  // second holders in synchronous training.
  struct Plan {
    Layout to;
    uint64_t partitions = 0, bytes = 0;
    bool heals = false;
  };

  void Begin(Plan plan, int64_t now_ms);
  bool under_way() const { return phase_ != Phase::kNone; }
  bool Is(Phase phase) const { return phase_ == phase; }
  // The plan of the move under way, or of the newest one.
  const Plan& plan() const { return plan_; }
  int64_t since_ms() const { return since_ms_; }
  bool heals() const { return plan_.heals; }
  // What it is called, such as "the move to 3 ps"; what is said when it has been done; and why
  // training stops for it.
  std::string Name() const;
  std::string DoneText() const;
  std::string Why() const;

  // Training stops, or has stopped, for the closing checkpoint and the layout.
  bool holds_training() const {
    return phase_ == Phase::kStopping || phase_ == Phase::kClosing || phase_ == Phase::kChecking ||
           phase_ == Phase::kWriting;
  }
  // The present generation has no workers: its only task is the closing checkpoint and the layout.
  bool closed() const { return closed_ && holds_training(); }

  // No worker gets a session: training has stopped, or the ps have not loaded by the layout yet.
  bool keeps_workers_out() const { return closed() || phase_ == Phase::kSettling; }

  // The ps that get partitions prepare `checkpoint` from now on.
  void Prepare(const std::string& checkpoint, int64_t now_ms);
  // The checkpoint that is prepared; empty: none is yet.
  const std::string& preparing() const { return preparing_; }
  // It is prepared everywhere. True if training may stop now: a checkpoint is written and read in
  // no time, or takes no less time than the one before, or this was the last try. Training stands
  // still while the closing checkpoint is written and read, which has what changes meanwhile.
  bool Prepared(int64_t now_ms);
  // A newer checkpoint is to be taken at once, to be prepared.
  void WantCheckpoint(int64_t now_ms);
  void CheckpointTaken() { wants_checkpoint_ = false; }
  bool wants_checkpoint() const { return phase_ == Phase::kPreparing && wants_checkpoint_; }

  void Stop(int64_t now_ms);
  void Close(int64_t now_ms);
  // The closing checkpoint is committed: the ps of the new layout are asked for a sign of life.
  void Check() { phase_ = Phase::kChecking; }
  // They have given one: the layout is to be written in place of `before`.
  void Write(std::optional<Layout> before) {
    phase_ = Phase::kWriting;
    before_ = std::move(before);
  }
  const std::optional<Layout>& before() const { return before_; }
  // The layout of a new move is to be written at once, in place of `before`: training stands still
  // since the closing checkpoint of the move before.
  void BeginClosed(Plan plan, std::optional<Layout> before, int64_t now_ms);
  void Settle() { phase_ = Phase::kSettling; }
  void Done(int64_t now_ms);
  // The closing checkpoint failed, or a ps was lost. True if the move begins again; false: that was
  // the last try, and the old layout stays.
  bool Again(const std::string& why, int64_t now_ms);
  // Why a ps of the new layout is not there yet; "": all are.
  void WaitFor(const std::string& why) { waits_for_ = why; }
  void GiveUp(const std::string& why);

  // For people: the move under way, or else the newest one; null if there was none. Its keys are
  // "phase", "ps", "version", "partitions", "bytes", "copies" if partitions get second holders and
  // none moves, "seconds" since it was asked for, and where they are known "stopped_seconds" and
  // "problem".
  nlohmann::json ToJson(int64_t now_ms) const;

 private:
  Phase phase_ = Phase::kNone;
  Plan plan_;
  bool closed_ = false;
  std::optional<Layout> before_;
  std::string preparing_;
  uint32_t preparations_ = 0;
  std::optional<int64_t> wanted_ms_;       // when the next checkpoint was asked for
  int64_t prepare_ms_ = 0;                 // when the newest preparation began, with its checkpoint
  std::optional<int64_t> took_ms_;         // the one before it
  bool counted_ = false, enough_ = false;  // of the finished preparation
  bool wants_checkpoint_ = false;
  uint32_t tries_ = 0;
  int64_t asked_ms_ = 0, since_ms_ = 0;  // when it was asked for, and when this try began
  std::optional<int64_t> stopped_ms_, done_ms_;
  std::string problem_;    // why the try before failed, or the move was given up
  std::string waits_for_;  // while it is under way
};

}  // namespace paracord
