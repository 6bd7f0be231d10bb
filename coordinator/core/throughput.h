// How fast workers have computed recently: over the window under way and the previous one. Only
// time in which the job trains counts. Owned by the core.
//
// Invariant: a window gets longer only between Start and Stop. A window in which nothing was
// computed does not end, so the rate falls while the last loss stays.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "proto/paracord.pb.h"

namespace paracord {

class Throughput {
 public:
  // The work of all workers in a period.
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
  // parallel). A session's first report is left out, because it includes opening the data and the
  // model.
  struct Steps {
    uint64_t batches = 0;
    double seconds = 0, compute_seconds = 0, waited_seconds = 0;
    size_t workers = 0;    // sessions at the last report
    uint32_t devices = 1;  // per worker
  };

  // Training begins or resumes (Start), or stops (Stop).
  void Start(int64_t now_ms);
  void Stop(int64_t now_ms);
  // Called at ticks: ends the window under way when it is long enough.
  void Tick(int64_t now_ms);
  // Counts a worker's report, on its first arrival only.
  void Count(const WorkRequest& report, int64_t now_ms);
  // Adds one session's report to the steps: it covers the `elapsed_seconds` since the session's
  // last report, on `devices` devices, with `workers` sessions in the job.
  void CountSteps(const WorkRequest& report, double elapsed_seconds, size_t workers,
                  uint32_t devices);

  // Both windows together; losses and staleness are meaningless if nothing was computed.
  Window Recently(int64_t now_ms) const;
  const Steps& steps() const { return steps_; }
  // When a worker last reported computed batches.
  std::optional<int64_t> counted_ms() const { return counted_ms_; }

 private:
  Window window_, before_;  // the window under way, and the last complete one
  bool running_ = false;
  std::optional<int64_t> counted_ms_;
  Steps steps_;
};

}  // namespace paracord
