// Decides when job.state (job_state.h) is written. Owned by JobRecord, which makes the contents;
// the core has them written.
//
// Invariants: at most one write is in flight, and none begins while this coordinator claims a
// generation (storage/claim.h): the write would carry an older generation than the claim, and look
// as if another coordinator led. A change during a write or claim is written afterwards.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/limits.h"

namespace paracord {

class StateWriter {
 public:
  // The state has changed. True if it is to be written now.
  bool Begin(bool claiming) {
    again_ = pending_ || claiming;
    if (again_) return false;
    pending_ = true;
    return true;
  }
  // The write under way has ended with `status`. A failed write is repeated after kRepeatMs, unless
  // `status` is ABORTED.
  void End(const absl::Status& status, int64_t now_ms) {
    pending_ = false;
    if (absl::IsAborted(status)) return;  // another coordinator leads
    problem_ = std::string(status.message());
    if (status.ok()) return;
    at_ms_ = now_ms + kRepeatMs;
    again_ = true;
  }
  // Whether a write is to begin now, for a change or after a failed write.
  bool Due(int64_t now_ms) const { return again_ && !pending_ && now_ms >= at_ms_; }

  bool pending() const { return pending_; }
  // Whether a write has to follow: the state has changed since the last write began, or that write
  // failed.
  bool again() const { return again_; }
  // Why the newest write failed; empty if it did not.
  const std::string& problem() const { return problem_; }

 private:
  bool pending_ = false;
  bool again_ = false;
  int64_t at_ms_ = 0;  // when to repeat a failed write
  std::string problem_;
};

}  // namespace paracord
