// These functions say for people who waits for whom and why: to a worker that asks in vain, in
// `paracord status` and in the log. The core owns the only StallReport, which logs.
//
// Invariants: what keeps training is logged once each time, whatever its numbers. Who is missing is
// logged now and again until the cluster has formed and a worker has joined.
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
// Who keeps whom, where all are there and batches or scores are computed; empty: nobody.
std::string Stalls(const JobView& job, int64_t now_ms);
// Why nothing moves; empty if it does.
std::string Waiting(const JobView& job, int64_t now_ms);

class StallReport {
 public:
  StallReport(int64_t now_ms, Effects& effects);

  // Called at ticks.
  void Say(const JobView& job, int64_t now_ms);

 private:
  void SayStalls(const JobView& job, int64_t now_ms);

  Effects& effects_;
  int64_t say_missing_at_ms_;
  std::string stalls_said_;  // without numbers
};

}  // namespace paracord
