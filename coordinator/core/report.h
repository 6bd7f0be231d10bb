// A report tells people of a job: `paracord status`, summary.json, charts, and the summary in a
// checkpoint's manifest are made of one. The core, the shell or a test makes it of a JobView.
//
// Invariant: all numbers of a report are of one instant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "coordinator/core/events.h"
#include "coordinator/core/job_view.h"

namespace paracord {

class Report {
 public:
  Report(const JobView& job, int64_t now_ms);

  // Counters as job.state and people get them, with what the life under way has brought.
  const JobCounters& counters() const { return counters_; }
  // Samples of applied batches, each once.
  uint64_t samples() const { return ledger_.samples; }

  // For `paracord status`; its keys stand in report.cc. The history begins with epoch
  // `history_from`, which is counted from 0; kNoHistory (proto/protocol.h): there is none.
  std::string StatusJson(uint64_t history_from = 0) const;
  // For summary.json, of a job that ends so.
  std::string SummaryText(const std::string& status, const std::string& reason,
                          ExitCode code = ExitCode::kDone) const;
  // The reason of a job that is done.
  std::string DoneReason() const;
  // For charts: the newest of the training.
  Chart TrainingChart() const;

 private:
  // Over the partitions, as far as the newest descriptions tell.
  struct LedgerCounts {
    uint64_t batches = 0;  // to be entered in all
    uint64_t applied_min = 0;
    uint64_t applied_max = 0;
    uint64_t rejected = 0;
    uint64_t samples = 0;  // in applied batches, each counted once
    bool healthy = true;
  };
  static LedgerCounts CountsOf(const JobView& job);
  uint64_t BatchesDone() const;
  double SamplesPerSecond() const;
  // Until the last batch, at the rate of the recent past; a job may stop before. nullopt: not
  // known.
  std::optional<double> SecondsLeft() const;

  const JobView job_;
  const int64_t now_ms_;
  const LedgerCounts ledger_;
  const Throughput::Window recently_;
  JobCounters counters_;
};

struct PartitionSize {
  std::string name;
  uint64_t bytes = 0;  // values only
};
// The largest partitions of each ps, at most `most` each, the largest first.
std::vector<std::vector<PartitionSize>> LargestPartitions(const JobView& job, size_t most);

// For charts: the results of evaluation `index` and later that people may be told.
std::vector<Chart> EvaluationCharts(const JobView& job, size_t index);

}  // namespace paracord
