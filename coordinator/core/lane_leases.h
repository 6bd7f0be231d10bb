// The leases of lanes in the open epoch: which session is to have each lane, and the round at which
// all leases end. A lease lasts about two seconds and is extended while its session keeps the lane.
// A lane that moves thus reaches its new session soon, and no message has to revoke a lease. Does
// no I/O. Owned by the core, which grants the leases themselves in the epoch's SplitTable.
//
// Invariants: all leases end at one round, or at the end of their lane, except second leases. The
// lease of a lane that is to move is not extended. A free lane is reserved for its new session for
// 200 ms, and then goes to any session that asks. A lane gets a second lease, to another session,
// only if LookBehind finds it or, with backup workers, if that session has waited long for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coordinator/core/lane_shares.h"
#include "coordinator/core/round_clock.h"
#include "coordinator/core/split_table.h"

namespace paracord {

// How many rounds a lease has: as many as fit in two seconds by recent rounds, from 2 to 1024.
class RoundPace {
 public:
  uint32_t rounds() const { return rounds_; }
  // Called often: the lane that is furthest ahead has reached round `front`.
  void Note(uint32_t front, int64_t now_ms);
  // An epoch begins, or training resumes.
  void Begin(uint32_t front, int64_t now_ms);

 private:
  uint32_t rounds_ = 0;  // 0 before the first Begin
  uint32_t front_ = 0;   // the round at `since_ms_`
  int64_t since_ms_ = 0;
};

class LaneLeases {
 public:
  // An epoch opens.
  void Begin(const SplitTable& table, int64_t now_ms);
  // A session that has not asked recently asks for work.
  void Asked() { asked_ = true; }
  // Whether to deal out free lanes: since the newest Deal some were freed or Asked was called.
  bool MustDeal(const SplitTable& table) const {
    return table.HasFree() && (asked_ || dealt_freed_ != table.freed());
  }
  // Assigns the lanes to `takers`, the sessions that hold lanes or ask for some.
  void Deal(const SplitTable& table, std::span<const LaneTaker> takers, int64_t now_ms);
  // Moves the common end of leases on if at most half of the rounds of a lease are left; moves it
  // back if a ps has lost its state and the end is far ahead.
  void MoveOn(const SplitTable& table, int64_t now_ms);
  // Looks for lanes that the round under way waits for and that have made no progress for
  // kStragglerMs, or for two rounds of usual duration (clock()) if that is longer; with backup
  // workers for 250 ms, or for `backup` such rounds.
  void LookBehind(const SplitTable& table, std::optional<double> backup, int64_t now_ms);
  // The lanes found by the newest LookBehind; they may have made progress since.
  const std::vector<uint64_t>& behind() const { return behind_; }

  // Whether the round under way has lasted for kStragglerMs, and for two rounds of usual duration.
  bool RoundIsOld(int64_t now_ms) const;

  // The round at which leases end. TakeMoved: whether MoveOn has changed it since the last
  // TakeMoved.
  uint32_t end() const { return end_; }
  bool TakeMoved() { return std::exchange(moved_, false); }
  const RoundClock& clock() const { return clock_; }
  bool StaysWith(uint64_t lane, uint64_t session) const;
  // Whether the session may take the lane: the lane is the session's, or free and not reserved.
  bool MayTake(uint64_t lane, uint64_t session, int64_t now_ms) const;

 private:
  RoundPace pace_;
  RoundClock clock_;
  uint32_t end_ = 0;
  bool moved_ = false;
  bool asked_ = false;
  std::optional<uint64_t> dealt_freed_;  // SplitTable::freed at the newest Deal
  std::vector<uint64_t> behind_;
  std::vector<uint64_t> owners_;        // index: lane; the session that is to have the lane
  std::vector<int64_t> free_since_ms_;  // index: lane; kNotFree: leased at the newest Deal
};

}  // namespace paracord
