// Tells people which tasks wait for which others, and why: in answers to workers without work, in
// `paracord status` and in the log. The core owns a StallReport, which logs.
//
// Invariants: when training begins to wait, the tasks that block it are logged once, and not again
// until training has gone on. Missing tasks are logged every 30 seconds until the cluster has
// formed and a worker has joined.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/core/effects.h"
#include "coordinator/core/job_view.h"

namespace paracord {

// The tasks that the job lacks, as "missing ps:1 at HOST:PORT, a worker (none has joined)".
std::string MissingTasks(const JobView& job);
// Why a worker has nothing to do, as the answer to its request for work says.
std::string WaitReason(const JobView& job);
// The tasks that block others while batches or scores are computed, and how; empty: there are none.
std::string Stalls(const JobView& job, int64_t now_ms);
// Why the job makes no progress; empty if it does, or has ended.
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
  std::string stalls_said_;  // what Stalls returned at the last tick, without digits and dots
};

}  // namespace paracord
