// The leases of lanes in the open epoch: with whom each lane is to be, and up to which round all
// leases reach. A lease lasts some two seconds and is extended while its session keeps the lane. A
// lane therefore reaches a new session soon, and no message has to revoke a lease. Pure; owned by
// the core, which grants leases in the epoch's SplitTable.
//
// Invariants: all leases end at one round, or with their lane. A lane that is to move is not moved
// on. A free lane that the session which is to have it does not ask for soon is anybody's. A lane
// has a second lease only where it is the furthest behind for much longer than a round takes, or
// where a worker says that its round does not come to an end without.
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

// How many rounds some two seconds have, from the rounds that were entered lately.
class RoundPace {
 public:
  uint32_t rounds() const { return rounds_; }
  // Some lane has come to round `front`.
  void Note(uint32_t front, int64_t now_ms);
  // An epoch begins, or training goes on.
  void Begin(uint32_t front, int64_t now_ms);

 private:
  uint32_t rounds_ = 0;  // before the first ones were entered
  uint32_t front_ = 0;   // at `since_ms_`
  int64_t since_ms_ = 0;
};

class LaneLeases {
 public:
  // An epoch is opened.
  void Begin(const SplitTable& table, int64_t now_ms);
  // A session that may have none asks for a lane.
  void Asked() { asked_ = true; }
  // Whether free lanes are to be dealt out that nobody had a look at: some were freed, or a session
  // asks.
  bool MustDeal(const SplitTable& table) const {
    return table.HasFree() && (asked_ || dealt_freed_ != table.freed());
  }
  // Deals the lanes out to the sessions that hold some or ask for some.
  void Deal(const SplitTable& table, std::span<const LaneTaker> takers, int64_t now_ms);
  // Lanes have come further: moves the common end of leases on where less than half is left.
  void MoveOn(const SplitTable& table, int64_t now_ms);
  // Looks for lanes that others wait for, and whose lease is as old as a straggler's. `backup`: how
  // many usual rounds make a straggler, where the job has backup workers.
  void LookBehind(const SplitTable& table, std::optional<double> backup, int64_t now_ms);
  // Those of the newest look, which may have come further since.
  const std::vector<uint64_t>& behind() const { return behind_; }

  // Whether the round under way has taken as long as a straggler, and longer than usual.
  bool RoundIsOld(int64_t now_ms) const;

  // The round at which leases end, and whether it has been moved on since this was last asked.
  uint32_t end() const { return end_; }
  bool TakeMoved() { return std::exchange(moved_, false); }
  const RoundClock& clock() const { return clock_; }
  bool StaysWith(uint64_t lane, uint64_t session) const;
  // Whether the session may have the lane, if it is free.
  bool MayTake(uint64_t lane, uint64_t session, int64_t now_ms) const;

 private:
  RoundPace pace_;
  RoundClock clock_;
  uint32_t end_ = 0;
  bool moved_ = false;
  bool asked_ = false;
  std::optional<uint64_t> dealt_freed_;  // SplitTable::freed at the newest Deal
  std::vector<uint64_t> behind_;
  std::vector<uint64_t> owners_;        // index: lane; the session meant to lease it
  std::vector<int64_t> free_since_ms_;  // index: lane; kNotFree: leased
};

}  // namespace paracord
