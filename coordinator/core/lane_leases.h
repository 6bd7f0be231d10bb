// The leases of lanes in the open epoch: with whom each lane is to be, and up to which round all
// leases reach. Leases last some two seconds and are moved on as long as their lane stays where it
// is, so that lanes come to a new session soon, and no message takes a lease back. Pure; owned by
// the core, which grants leases in the epoch's SplitTable.
//
// Invariants: all leases end at one round, or with their lane. A lane that is to move is not moved
// on. A free lane that the session which is to have it does not ask for soon is anybody's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  // Deals the lanes out to the sessions that hold some or ask for some.
  void Deal(const SplitTable& table, std::span<const uint64_t> takers, int64_t now_ms);
  // Lanes have come further: moves the common end of leases on where less than half is left.
  void MoveOn(const SplitTable& table, int64_t now_ms);

  // The round at which leases end.
  uint32_t end() const { return end_; }
  bool StaysWith(uint64_t lane, uint64_t session) const;
  // Whether the session may have the lane, if it is free.
  bool MayTake(uint64_t lane, uint64_t session, int64_t now_ms) const;

 private:
  RoundPace pace_;
  uint32_t end_ = 0;
  std::vector<uint64_t> owners_;        // by lane, the session that is to have it
  std::vector<int64_t> free_since_ms_;  // by lane; kNotFree: it is leased
};

}  // namespace paracord
