// What a worker reports of trained batches, for the history of epochs. Used on the event loop.
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
  std::vector<MetricState> metrics;  // over the examples; empty: not known
};

// The batches since the last report, and the records that were left out of them, in the form of
// WorkRequest.trained and WorkRequest.bad_records.
struct TrainedLog {
  // A metric whose state has more values is not reported for training, only for evaluations: each
  // report would have to carry the state.
  static constexpr int kMetricValuesMax = 4096;

  std::vector<TrainedBatches> batches;
  std::vector<std::string> bad_records;

  // Adds a batch that every partition has. A batch that follows the last batch of the newest entry
  // of its split extends the entry.
  void Add(const DataPlan& plan, const BatchId& batch, const TrainedBatch& trained);
};

// Remembers which bad records were reported: each is reported once, and at most kNamesMax in a
// session, because people need only a few.
class BadRecordNames {
 public:
  static constexpr size_t kNamesMax = 20;

  // Adds the records of a batch's Batch::left_out that were not reported yet to `log`.
  void Name(const std::vector<std::string>& left_out, TrainedLog& log);

 private:
  std::set<std::string> named_;
};

}  // namespace paracord
