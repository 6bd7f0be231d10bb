// What a worker tells of the batches that it trained, for the history of their epochs. Values; used
// on the loop.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

// What came of computing a batch.
struct TrainedBatch {
  uint32_t examples = 0;
  double loss = 0;                   // the mean over the examples
  std::vector<MetricState> metrics;  // over the examples; none: not known
};

// Batches since the last report, and records that were left out of them, as WorkRequest has them.
struct TrainedLog {
  // A metric whose state has more values is told of evaluations alone: each report would carry it.
  static constexpr int kMetricValuesMax = 4096;

  std::vector<TrainedBatches> batches;
  std::vector<std::string> bad_records;

  // Adds a batch that every partition has. One that follows the newest of its split goes with it.
  void Add(const DataPlan& plan, const BatchId& batch, const TrainedBatch& trained);
};

// Which bad records a process has named already: a few are enough for people.
class BadRecordNames {
 public:
  static constexpr size_t kNamesMax = 20;

  // Adds those of a batch that are new to `log`.
  void Name(const std::vector<std::string>& left_out, TrainedLog& log);

 private:
  std::set<std::string> named_;
};

}  // namespace paracord
