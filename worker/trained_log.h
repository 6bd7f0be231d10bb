// Batches that a worker trained, reported for the history of the epochs. Values; used on the loop.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

// The result of computing a batch.
struct TrainedBatch {
  uint32_t examples = 0;
  double loss = 0;                   // the mean over the examples
  std::vector<MetricState> metrics;  // over the examples; none: not known
};

// Batches since the last report, and the records left out of the batches, in the form of
// WorkRequest.
struct TrainedLog {
  // A metric with a larger state is reported for evaluations only, because each report would carry
  // the state.
  static constexpr int kMetricValuesMax = 4096;

  std::vector<TrainedBatches> batches;
  std::vector<std::string> bad_records;

  // Adds a batch that every partition has. A batch that follows the newest batch of its split
  // extends the entry of the split.
  void Add(const DataPlan& plan, const BatchId& batch, const TrainedBatch& trained);
};

// Remembers which bad records a process has named: people need only a few names.
class BadRecordNames {
 public:
  static constexpr size_t kNamesMax = 20;

  // Adds the names of a batch's new bad records to `log`.
  void Name(const std::vector<std::string>& left_out, TrainedLog& log);

 private:
  std::set<std::string> named_;
};

}  // namespace paracord
