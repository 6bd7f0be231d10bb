// The end of a job: planned, so that a checkpoint is taken first, and then decided. After that the
// coordinator only tells everybody and exits. Owned by the core.
//
// Invariants: the first plan and the first decision stand. Where only this coordinator leaves, such
// as drained, workers and ps stay for the next one and are told nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/exit_code.h"
#include "coordinator/core/events.h"

namespace paracord {

// How a job ends before it is done.
struct Ending {
  ExitCode code = ExitCode::kDrained;
  std::string status;  // the status of summary.json
  std::string reason;
  std::string waiting = "";  // what kept the job from training when its end was planned
};

class Shutdown {
 public:
  // The job ends as soon as a checkpoint is taken, by SIGTERM or because it failed, and at the
  // latest at the deadline.
  void Plan(Ending ending, int64_t deadline_ms);
  bool planned() const { return ending_.has_value(); }
  const Ending& ending() const { return *ending_; }
  bool Overdue(int64_t now_ms) const { return planned() && now_ms > deadline_ms_; }

  // The job ends now. `alone`: only this coordinator leaves, whatever the code.
  void Decide(ExitCode code, const std::string& reason, bool alone, int64_t now_ms);
  bool decided() const { return exit_.has_value(); }
  // Whether workers and ps are told: the job has ended for them too.
  bool told() const { return decided() && !alone_; }
  bool alone() const { return alone_; }
  const Exit& exit() const { return *exit_; }
  // The last word was fenced: another coordinator leads.
  void Fenced();

  // How the others stand when this coordinator asks whether it may exit.
  struct Others {
    bool ps_told = false;        // every ps to notify has answered
    bool workers_told = false;   // nobody is known who has not been told
    bool workers_named = false;  // the cluster names its workers
    bool written = false;        // no file is being written
  };
  // True once: this coordinator exits. `formed_ms`: when the cluster had formed.
  bool ExitsNow(const Others& others, std::optional<int64_t> formed_ms, int64_t now_ms);
  bool exited() const { return exited_; }

 private:
  bool AllAsked(const Others& others, std::optional<int64_t> formed_ms, int64_t now_ms) const;

  std::optional<Ending> ending_;
  int64_t deadline_ms_ = 0;
  std::optional<Exit> exit_;
  int64_t ended_ms_ = 0;
  bool alone_ = false;
  bool exited_ = false;
};

}  // namespace paracord
