// A report of a job for people: the source of `paracord status`, summary.json, charts, and the
// summary in a checkpoint's manifest. A JobView refers to the live objects of the core, so a report
// is used before the core takes its next event.
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

  // The counters for job.state and for people: this coordinator's added to those of earlier ones.
  const JobCounters& counters() const { return counters_; }
  // The number of samples in the batches applied by the partition that has applied the fewest.
  uint64_t samples() const { return ledger_.samples; }

  // For `paracord status`; report.cc lists the keys. The history begins with epoch `history_from`,
  // counted from 0; kNoHistory (proto/protocol.h): without history.
  std::string StatusJson(uint64_t history_from = 0) const;
  // The summary.json of a job that ends with this status and reason.
  std::string SummaryText(const std::string& status, const std::string& reason,
                          ExitCode code = ExitCode::kDone) const;
  // The reason of a job that is done.
  std::string DoneReason() const;
  // The newest figures of training (loss, staleness, speed, number of workers), for charts.
  Chart TrainingChart() const;

 private:
  // Counts of batches over all partitions, from the newest descriptions of the ps.
  struct LedgerCounts {
    uint64_t batches = 0;      // the batches of the whole job
    uint64_t applied_min = 0;  // in the partition that has applied the fewest
    uint64_t applied_max = 0;  // in the partition that has applied the most
    uint64_t rejected = 0;     // in the partition that has entered the most as rejected
    uint64_t samples = 0;      // what samples() returns
    bool healthy = true;       // all values are finite, as the ps report
  };
  static LedgerCounts CountsOf(const JobView& job);
  uint64_t BatchesDone() const;
  double SamplesPerSecond() const;
  // The seconds until the last batch of the job at the recent rate, if the job does not stop
  // earlier. nullopt: not known, for example because training waits.
  std::optional<double> SecondsLeft() const;

  const JobView job_;
  const int64_t now_ms_;
  const LedgerCounts ledger_;
  const Throughput::Window recently_;
  JobCounters counters_;
};

struct PartitionSize {
  std::string name;
  // The size of the partition's parameters; in a growing table, the memory of its rows.
  uint64_t bytes = 0;
};
// For each ps, the `most` largest of the partitions that the layout gives it (PartitionSpec.ps),
// largest first.
std::vector<std::vector<PartitionSize>> LargestPartitions(const JobView& job, size_t most);

// A chart of each evaluation result that people may see (Evaluations::told), from number `index`
// on.
std::vector<Chart> EvaluationCharts(const JobView& job, size_t index);

}  // namespace paracord
