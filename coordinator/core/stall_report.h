// Tells people who waits for whom and why: in answers to workers without work, in `paracord status`
// and in the log. The core owns the only StallReport, which logs.
//
// Invariants: each cause that stops training is logged once, even if its numbers change. Missing
// tasks are logged repeatedly until the cluster has formed and a worker has joined.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/core/effects.h"
#include "coordinator/core/job_view.h"

namespace paracord {

// The tasks that the job lacks, as "missing ps:1 at HOST:PORT, a worker (none has joined)".
std::string MissingTasks(const JobView& job);
// Why a worker has nothing to do.
std::string WaitReason(const JobView& job);
// Which tasks block others while batches or scores are computed; empty: none do.
std::string Stalls(const JobView& job, int64_t now_ms);
// Why the job makes no progress; empty if it does.
std::string Waiting(const JobView& job, int64_t now_ms);

class StallReport {
 public:
  StallReport(int64_t now_ms, Effects& effects);

  // Called at each tick.
  void Say(const JobView& job, int64_t now_ms);

 private:
  void SayStalls(const JobView& job, int64_t now_ms);

  Effects& effects_;
  int64_t say_missing_at_ms_;
  std::string stalls_said_;  // without digits
};

}  // namespace paracord
