// When a ps last heard from a coordinator, and how long the ps waits for a coordinator to come.
// Owned by the ParameterServer, which asks on its loop, runs the timers and looks in DIR for the
// end of the job.
// | Invariants: a ps that has loaded partitions does not wait for a coordinator with more to do
// after the job is done. A ps that has loaded nothing waits once, if the first look in DIR finds a
// finished job, because ps and coordinator may start in any order. If a later look finds a
// different end, the job ended in the meantime.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "storage/checkpoint.h"

namespace paracord {

class CoordinatorWatch {
 public:
  void Start(int64_t now_ms) { started_ms_ = now_ms; }
  // A coordinator called or went away: the wait for the next coordinator begins.
  void Heard(int64_t now_ms) { heard_ms_ = now_ms; }
  int64_t heard_ms() const { return heard_ms_; }
  // Returns how much longer a coordinator may stay away, of `orphan_ms` in all; 0: no longer.
  int64_t OrphanLeftMs(int64_t orphan_ms, int64_t now_ms) const {
    return std::max<int64_t>(0, heard_ms_ + orphan_ms - now_ms);
  }

  // Partitions were loaded.
  void Loaded() { loaded_ = true; }
  // A look in DIR has not found a finished job.
  void FoundNoEnd() { looked_ = true; }
  // A look in DIR has found a finished job. Returns how long to wait for a coordinator; nullopt:
  // the wait is over.
  std::optional<int64_t> FoundEnd(const JobEnd& end, int64_t now_ms) {
    if (loaded_) return std::nullopt;
    if (!looked_) found_ = end.checkpoint;
    looked_ = true;
    const int64_t left_ms = started_ms_ + end.start_ms - now_ms;
    return found_ == end.checkpoint && left_ms > 0 ? std::optional(left_ms) : std::nullopt;
  }

 private:
  int64_t heard_ms_ = 0;
  int64_t started_ms_ = 0;
  bool looked_ = false;  // DIR was looked at for the end of the job
  std::string found_;    // the final checkpoint that the first look found; empty: none
  bool loaded_ = false;
};

}  // namespace paracord
