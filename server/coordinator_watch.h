// When a ps has heard from a coordinator, and for how long it waits for one that may come. Owned by
// the ParameterServer, which asks on its loop, runs the timers and looks for the job's end in DIR.
//
// Invariants: a ps that has loaded something waits for no coordinator that gives a job that is done
// more to do. A ps that has loaded nothing waits once, if its first look in DIR finds a finished
// job, because ps and coordinator may start in any order. If a later look finds a different end,
// the job ended in the meantime.
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
  // A coordinator was heard, or one that was there has gone: the wait for the next one begins.
  void Heard(int64_t now_ms) { heard_ms_ = now_ms; }
  int64_t heard_ms() const { return heard_ms_; }
  // How long it may still be away, if it may be away for `orphan_ms`; 0: no longer.
  int64_t OrphanLeftMs(int64_t orphan_ms, int64_t now_ms) const {
    return std::max<int64_t>(0, heard_ms_ + orphan_ms - now_ms);
  }

  // Partitions were loaded.
  void Loaded() { loaded_ = true; }
  // DIR was looked at, and does not say that the job is done.
  void FoundNoEnd() { looked_ = true; }
  // DIR says that the job is done: how long to wait for a coordinator; nullopt: not any more.
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
  bool looked_ = false;  // for the job's end in DIR, once at least
  std::string found_;    // the final checkpoint that the first look found; empty: none
  bool loaded_ = false;
};

}  // namespace paracord
