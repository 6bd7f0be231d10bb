// Writes summary.json, the final report of a job: for a failed or drained job the write is tried
// once, for a finished job up to 30 times. Owned by the core, which makes the text.
//
// Invariant: no summary is written while this coordinator claims a generation (storage/claim.h):
// the write would carry an older generation than the claim, and look as if another coordinator led.
// The summary waits for the end of the claim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/generation.h"

namespace paracord {

class SummaryWriter {
 public:
  explicit SummaryWriter(Effects& effects) : effects_(effects) {}

  // The job ends before it is done: writes its summary.
  void Say(std::string text, const Generation& generation);
  // A claim by this coordinator has ended: writes the summary that waited for it.
  void ClaimEnded(const Generation& generation);
  // The final checkpoint is committed: the job is done as soon as this summary is written.
  void SayDone(std::string text, const Generation& generation);
  // Whether SayDone has been called.
  bool done() const { return done_.has_value(); }
  // Called at ticks before the end of the job: repeats a failed write after a pause.
  void Tick(const Generation& generation, int64_t now_ms);

  // Whether the summary of a failed or drained job is still to be written.
  bool pending() const { return pending_; }
  // A write has ended, with or without success.
  void Written() { pending_ = false; }
  // The write of the summary of a finished job failed. True if this was the last try.
  bool Failed(int64_t now_ms);

 private:
  void Write(std::string text, const Generation& generation);

  Effects& effects_;
  bool pending_ = false;
  std::optional<std::string> held_;  // waits for the end of a claim
  std::optional<std::string> done_;
  uint32_t tries_ = 0;
  int64_t again_at_ms_ = 0;  // when to repeat a failed write; 0: there is none to repeat
};

}  // namespace paracord
