// The writing of summary.json: the final report of a job. For a failed or drained job the write is
// tried once, for a finished job until it succeeds. Owned by the core, which says what it reads.
//
// Invariants: nothing is written behind a claim of our own, where the generation it is of would
// look as if somebody else led; the word waits for the claim to end.
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

  // The job ends before it is done.
  void Say(std::string text, const Generation& generation);
  // A claim of our own has ended.
  void ClaimEnded(const Generation& generation);
  // The final checkpoint is committed: the job is done as soon as this is written.
  void SayDone(std::string text, const Generation& generation);
  bool done() const { return done_.has_value(); }
  // Called at ticks before the end of the job: writes again what failed, after a pause.
  void Tick(const Generation& generation, int64_t now_ms);

  // Whether the word of a job that failed or was drained is not written yet.
  bool pending() const { return pending_; }
  void Written() { pending_ = false; }
  // The word of a job that is done could not be written. True if no further try is worth it.
  bool Failed(int64_t now_ms);

 private:
  Effects& effects_;
  bool pending_ = false;
  std::optional<std::string> held_;  // until a claim under way has ended
  std::optional<std::string> done_;
  uint32_t tries_ = 0;
  int64_t again_at_ms_ = 0;  // after a write that failed; 0: none did
};

}  // namespace paracord
