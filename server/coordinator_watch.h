// When a ps last heard from a coordinator, and how long the ps waits for a coordinator to come.
// Owned by the ParameterServer, which calls on its loop, runs the timers and looks in the job's
// directory (DIR) for the end of the job.
//
// Invariants: a ps that has loaded partitions does not wait when the job is done. A ps that has
// loaded nothing may have started before a coordinator that gives the job more to do: if the first
// look in DIR finds a finished job, such a ps waits until timeouts.start_s after its start. If a
// later look finds a different final checkpoint, the job has ended meanwhile, and the ps leaves.
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
  // A coordinator called or went away: the wait for a coordinator begins anew.
  void Heard(int64_t now_ms) { heard_ms_ = now_ms; }
  int64_t heard_ms() const { return heard_ms_; }
  // Returns for how many more milliseconds a coordinator may stay away, of `orphan_ms` in all.
  int64_t OrphanLeftMs(int64_t orphan_ms, int64_t now_ms) const {
    return std::max<int64_t>(0, heard_ms_ + orphan_ms - now_ms);
  }

  // Partitions were loaded.
  void Loaded() { loaded_ = true; }
  // A look in DIR has not found a finished job.
  void FoundNoEnd() { looked_ = true; }
  // A look in DIR has found a finished job. Returns how many milliseconds to wait for a
  // coordinator; nullopt: the ps leaves.
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
  bool looked_ = false;  // whether DIR was looked at for the end of the job
  std::string found_;    // name of the final checkpoint at the first look; "": none
  bool loaded_ = false;
};

}  // namespace paracord
