// A report of a job for people: the source of `paracord status`, summary.json, charts, and the
// summary in a checkpoint's manifest. The core, the shell or a test makes a report from a JobView.
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

  // The counters for job.state and for people, up to the present.
  const JobCounters& counters() const { return counters_; }
  // The number of samples in applied batches, each counted once.
  uint64_t samples() const { return ledger_.samples; }

  // For `paracord status`; report.cc lists the keys. The history begins with epoch `history_from`,
  // counted from 0; kNoHistory (proto/protocol.h): without history.
  std::string StatusJson(uint64_t history_from = 0) const;
  // The summary.json of a job that ends with this status and reason.
  std::string SummaryText(const std::string& status, const std::string& reason,
                          ExitCode code = ExitCode::kDone) const;
  // The reason of a job that is done.
  std::string DoneReason() const;
  // The newest figures of training, for charts.
  Chart TrainingChart() const;

 private:
  // Counts over all partitions, from the newest descriptions of the ps.
  struct LedgerCounts {
    uint64_t batches = 0;  // the batches of the whole job
    uint64_t applied_min = 0;
    uint64_t applied_max = 0;
    uint64_t rejected = 0;
    uint64_t samples = 0;  // in applied batches, each counted once
    bool healthy = true;
  };
  static LedgerCounts CountsOf(const JobView& job);
  uint64_t BatchesDone() const;
  double SamplesPerSecond() const;
  // The seconds until the last batch at the recent rate; a job may stop earlier. nullopt: not
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
// The largest partitions of each ps, largest first, at most `most` each.
std::vector<std::vector<PartitionSize>> LargestPartitions(const JobView& job, size_t most);

// Charts of the evaluation results from number `index` on that people may see.
std::vector<Chart> EvaluationCharts(const JobView& job, size_t index);

}  // namespace paracord
