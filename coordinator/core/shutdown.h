// The end of a job. An end may be planned, so that a checkpoint is taken first, and is then
// decided; after the decision the coordinator only tells all workers and ps, and exits. Owned by
// the coordinator's core.
//
// Invariants: the core plans once, and the first decision stands (but see Fenced). If only this
// coordinator leaves, for example when drained, workers and ps are told nothing and wait for the
// next coordinator.
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
  std::string status;  // `status` in summary.json
  std::string reason;
  std::string waiting = "";  // what kept the job from training when its end was planned, if known
};

class Shutdown {
 public:
  // Plans the end, after SIGTERM or a failure: the core ends the job as soon as a checkpoint is
  // committed, and at the first tick after `deadline_ms` without one.
  void Plan(Ending ending, int64_t deadline_ms);
  bool planned() const { return ending_.has_value(); }
  const Ending& ending() const { return *ending_; }
  bool Overdue(int64_t now_ms) const { return planned() && now_ms > deadline_ms_; }

  // Ends the job now, unless its end is decided already. Only this coordinator leaves if `alone`,
  // or if `code` is kDrained or kFenced.
  void Decide(ExitCode code, const std::string& reason, bool alone, int64_t now_ms);
  bool decided() const { return exit_.has_value(); }
  // Whether workers and ps have to be told, because the job has ended for them too.
  bool told() const { return decided() && !alone_; }
  bool alone() const { return alone_; }
  const Exit& exit() const { return *exit_; }
  // The summary was not written because another coordinator leads: if only this coordinator leaves,
  // it exits with kFenced.
  void Fenced();

  // What the exit of this coordinator waits for.
  struct Others {
    bool ps_told = false;        // every ps that has to be told has answered
    bool workers_told = false;   // no known worker is left to tell
    bool workers_named = false;  // the cluster names its workers
    bool written = false;        // neither summary.json nor job.state is being written
  };
  // Whether this coordinator is to exit now; true a single time. It exits when all in `others` is
  // true, and at the latest two seconds after the decision. At the end of a job that is done it
  // waits for workers only half a second. If the job ends less than two seconds after the cluster
  // formed (`formed_ms`), or before, and the cluster does not name its workers, more of them may
  // still come, and the coordinator waits the two seconds.
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
