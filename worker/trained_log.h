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
  double loss = 0;                   // the mean loss of the examples
  std::vector<MetricState> metrics;  // of the examples; empty: not known
};

// The batches since the last report, and the bad records that were left out of batches, in the form
// of WorkRequest.trained and WorkRequest.bad_records.
struct TrainedLog {
  // A metric whose state has more values is not reported for training batches, because each report
  // would have to carry the state.
  static constexpr int kMetricValuesMax = 4096;

  std::vector<TrainedBatches> batches;
  std::vector<std::string> bad_records;

  // Adds a batch that every partition has. If the batch follows the last batch of the newest
  // element of `batches` for the same split, extends that element.
  void Add(const DataPlan& plan, const BatchId& batch, const TrainedBatch& trained);
};

// Remembers which bad records were reported. Each is reported once, and at most kNamesMax are
// reported in a session, because people need only a few.
class BadRecordNames {
 public:
  static constexpr size_t kNamesMax = 20;

  // Adds the records of a batch's Batch::left_out that were not reported yet to `log`.
  void Name(const std::vector<std::string>& left_out, TrainedLog& log);

 private:
  std::set<std::string> named_;
};

}  // namespace paracord
