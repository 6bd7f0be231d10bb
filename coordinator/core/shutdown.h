// The end of a job. An end is first planned, so that a checkpoint is taken, and then decided; after
// the decision the coordinator only tells everybody and exits. Owned by the core.
//
// Invariants: the first plan and the first decision stand. If only this coordinator leaves, for
// example when drained, workers and ps are told nothing and wait for the next coordinator.
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
  // Plans the end, after SIGTERM or a failure: the job ends as soon as a checkpoint is taken, and
  // at the latest at `deadline_ms`.
  void Plan(Ending ending, int64_t deadline_ms);
  bool planned() const { return ending_.has_value(); }
  const Ending& ending() const { return *ending_; }
  bool Overdue(int64_t now_ms) const { return planned() && now_ms > deadline_ms_; }

  // Ends the job now. `alone`: only this coordinator leaves, whatever `code` is.
  void Decide(ExitCode code, const std::string& reason, bool alone, int64_t now_ms);
  bool decided() const { return exit_.has_value(); }
  // Whether workers and ps have to be told, because the job has ended for them too.
  bool told() const { return decided() && !alone_; }
  bool alone() const { return alone_; }
  const Exit& exit() const { return *exit_; }
  // The last write was fenced, because another coordinator leads: exit with kFenced.
  void Fenced();

  // The state of everything that the exit of this coordinator waits for.
  struct Others {
    bool ps_told = false;        // every ps that has to know has answered
    bool workers_told = false;   // every known worker has been told
    bool workers_named = false;  // the cluster names its workers
    bool written = false;        // no file is being written
  };
  // True once, when this coordinator is to exit. `formed_ms`: when the cluster formed.
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
