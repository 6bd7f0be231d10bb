// How fast workers have computed recently, in two windows: the one under way and the previous one.
// Only time in which the job trains counts. Owned by the core.
//
// Invariants: a window gets longer only between Start and Stop. A window in which no batch was
// reported does not end: the rate then falls, while the mean loss stays.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "proto/paracord.pb.h"

namespace paracord {

class Throughput {
 public:
  // The work that all workers have reported in a period.
  struct Window {
    int64_t since_ms = 0, length_ms = 0;
    uint64_t computed = 0, samples = 0, staleness_sum = 0;
    double loss_sum = 0;
    double loss() const { return loss_sum / static_cast<double>(computed); }
    double staleness() const {
      return static_cast<double>(staleness_sum) / static_cast<double>(computed);
    }
  };

  // The time that batches took, summed over all sessions (`seconds` adds up sessions that run in
  // parallel). The core leaves out a session's first report, whose time includes opening the data
  // and the model.
  struct Steps {
    uint64_t batches = 0;
    double seconds = 0, compute_seconds = 0, waited_seconds = 0;
    size_t workers = 0;    // sessions at the last report
    uint32_t devices = 1;  // devices of the worker that reported last
  };

  // Training begins or resumes (Start), or stops (Stop).
  void Start(int64_t now_ms);
  void Stop(int64_t now_ms);
  // Called at ticks: ends the window under way when it is two seconds long and has a batch.
  void Tick(int64_t now_ms);
  // Counts a worker's report. The caller drops repeated reports.
  void Count(const WorkRequest& report, int64_t now_ms);
  // Adds one session's report to the steps. `elapsed_seconds`: since the session's previous report;
  // `devices`: of the session's worker; `workers`: how many sessions the job has.
  void CountSteps(const WorkRequest& report, double elapsed_seconds, size_t workers,
                  uint32_t devices);

  // The sum of both windows; its loss() and staleness() are meaningless if `computed` is 0.
  Window Recently(int64_t now_ms) const;
  const Steps& steps() const { return steps_; }
  // When a worker last reported computed batches.
  std::optional<int64_t> counted_ms() const { return counted_ms_; }

 private:
  Window window_, before_;  // the window under way, and the previous one
  bool running_ = false;
  std::optional<int64_t> counted_ms_;
  Steps steps_;
};

}  // namespace paracord
