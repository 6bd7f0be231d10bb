// Scores a range of the test records. Workers of a job, the evaluator and `paracord evaluate` all
// score here. On the executor's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/rows_for_batch.h"
#include "worker/table_rows.h"

namespace paracord {

// Scores records [first, end) in batches of `batch` and fills in examples and metrics of `report`.
// An error names file and record, or the model's objection.
absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// Evaluates with the rows that each batch reads, for tables that grow or lie in a checkpoint's
// files.
absl::Status Evaluate(Workload& workload, RowsForBatch& rows, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// A range of an evaluation whose caller brings the rows that each batch reads.
struct ScoredRange {
  uint64_t next = 0, end = 0;  // records
  uint64_t batch = 0;
  Batch examples;   // the examples of the batch at hand
  SharedRows rows;  // the rows that the batch reads
  std::vector<MetricState> states;
  EvaluationReport report;  // complete once `next` is `end`
};
// Reads the batch at `next`, and finds the rows that the batch reads.
absl::Status ReadForScore(Workload& workload, ScoredRange& range);
// Scores the batch at hand with the values of its rows.
absl::Status ScoreWithRows(Workload& workload, ConstTensors values, ScoredRange& range);

}  // namespace paracord
