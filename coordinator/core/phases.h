// The phase of a job, when the cluster formed, and how long this coordinator has trained. Owned by
// the core, which decides when the next phase begins.
//
// Invariants: the core begins no phase after kEnded. formed_ms() is set at the beginning of the
// first phase in which the ps serve (serving()), and stays.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

enum class Phase { kForming, kLoading, kTraining, kEvaluating, kFinishing, kEnded };

class Phases {
 public:
  explicit Phases(int64_t now_ms) : started_ms_(now_ms), since_ms_(now_ms) {}

  Phase now() const { return phase_; }
  bool ended() const { return phase_ == Phase::kEnded; }
  bool training() const { return phase_ == Phase::kTraining; }
  // Whether the job is in a phase that needs the ps: to train, to evaluate or for the final
  // checkpoint.
  bool serving() const {
    return phase_ == Phase::kTraining || phase_ == Phase::kEvaluating ||
           phase_ == Phase::kFinishing;
  }
  // Begins a phase. True if the cluster has formed with it: the phase is the first one under this
  // coordinator in which the ps serve.
  bool Begin(Phase phase, int64_t now_ms) {
    if (training()) training_ms_ += now_ms - since_ms_;
    phase_ = phase;
    since_ms_ = now_ms;
    if (!serving() || formed()) return false;
    formed_ms_ = now_ms;
    return true;
  }

  bool formed() const { return formed_ms_.has_value(); }
  std::optional<int64_t> formed_ms() const { return formed_ms_; }
  int64_t started_ms() const { return started_ms_; }
  // How long this coordinator has been in kTraining.
  int64_t TrainingMs(int64_t now_ms) const {
    return training_ms_ + (training() ? now_ms - since_ms_ : 0);
  }

 private:
  const int64_t started_ms_;
  Phase phase_ = Phase::kForming;
  int64_t since_ms_;
  int64_t training_ms_ = 0;  // time in earlier phases kTraining
  std::optional<int64_t> formed_ms_;
};

}  // namespace paracord
