// Scores a range of the test records: the one way in which a job's workers, the evaluator and
// `paracord evaluate` do it. On the executor's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/rows_for_batch.h"
#include "worker/table_rows.h"

namespace paracord {

// Records [first, end) in batches of `batch`; fills in examples and metrics of `report`. An error
// names file and record, or what the model has against them.
absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// Evaluates with the rows that each batch reads of its tables, if some of these grow or are in a
// checkpoint's files.
absl::Status Evaluate(Workload& workload, RowsForBatch& rows, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// A range of an evaluation, for a caller that brings the rows which each batch reads of tables.
struct ScoredRange {
  uint64_t next = 0, end = 0;  // records
  uint64_t batch = 0;
  Batch examples;   // of the batch at hand
  SharedRows rows;  // that it reads
  std::vector<MetricState> states;
  EvaluationReport report;  // complete once `next` is `end`
};
// Reads the batch at `next`, and which rows it reads.
absl::Status ReadForScore(Workload& workload, ScoredRange& range);
// Scores it with the values of these rows.
absl::Status ScoreWithRows(Workload& workload, ConstTensors values, ScoredRange& range);

}  // namespace paracord
