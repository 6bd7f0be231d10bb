// The leases of lanes in the open epoch: which session is to have each lane, and the round at which
// all leases end. A lease lasts about two seconds and is extended while its session keeps the lane.
// A lane therefore reaches a new session soon without a message that revokes a lease. Does no I/O.
// Owned by the core, which grants the leases themselves in the epoch's SplitTable.
//
// Invariants: all leases end at the same round, or with their lane; the backup leases of single
// rounds are excepted. The lease of a lane that is to move is not extended. A free lane is reserved
// for its new session for 200 ms, and then goes to any session that asks. A lane gets a second
// lease only if it has been the furthest behind for much longer than a round takes, or, with backup
// workers, if a session has waited long for it.
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

// How many rounds fit in about two seconds (2 to 1024), measured from recent rounds.
class RoundPace {
 public:
  uint32_t rounds() const { return rounds_; }
  // The lane that is furthest ahead has reached round `front`.
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
  // Whether free lanes are to be dealt out: lanes were freed since the newest Deal, or Asked was
  // called.
  bool MustDeal(const SplitTable& table) const {
    return table.HasFree() && (asked_ || dealt_freed_ != table.freed());
  }
  // Assigns the lanes to `takers`, the sessions that hold lanes or ask for some.
  void Deal(const SplitTable& table, std::span<const LaneTaker> takers, int64_t now_ms);
  // Moves the common end of leases on if fewer than half of the rounds of a lease are left.
  void MoveOn(const SplitTable& table, int64_t now_ms);
  // Looks for lanes that block the others and have made no progress for the longer of kStragglerMs
  // and two usual rounds; with backup workers, of 250 ms and `backup` usual rounds.
  void LookBehind(const SplitTable& table, std::optional<double> backup, int64_t now_ms);
  // The lanes found by the newest LookBehind; they may have made progress since.
  const std::vector<uint64_t>& behind() const { return behind_; }

  // Whether the round under way has lasted for kStragglerMs and for two usual rounds.
  bool RoundIsOld(int64_t now_ms) const;

  // The round at which leases end. TakeMoved: whether MoveOn has moved it since the last TakeMoved.
  uint32_t end() const { return end_; }
  bool TakeMoved() { return std::exchange(moved_, false); }
  const RoundClock& clock() const { return clock_; }
  bool StaysWith(uint64_t lane, uint64_t session) const;
  // Whether the session may take the lane: the lane is assigned to it, or free and not reserved.
  bool MayTake(uint64_t lane, uint64_t session, int64_t now_ms) const;

 private:
  RoundPace pace_;
  RoundClock clock_;
  uint32_t end_ = 0;
  bool moved_ = false;
  bool asked_ = false;
  std::optional<uint64_t> dealt_freed_;  // SplitTable::freed at the newest Deal
  std::vector<uint64_t> behind_;
  std::vector<uint64_t> owners_;        // index: lane; the session that is to lease the lane
  std::vector<int64_t> free_since_ms_;  // index: lane; kNotFree: the lane is leased
};

}  // namespace paracord
