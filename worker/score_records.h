// Scores a range of the test records, for workers, the evaluator and `paracord evaluate`. Used on
// the thread that computes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/rows_for_batch.h"
#include "worker/table_rows.h"

namespace paracord {

// Scores records [first, end) in batches of `batch` records with `values`, and sets examples and
// metrics of `report`. An error of the data names file and record.
absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// Scores these records with the values that `rows` gives each batch.
absl::Status Evaluate(Workload& workload, RowsForBatch& rows, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// A range of an evaluation that is scored batch after batch, by ReadForScore and ScoreWithRows,
// because the caller has to pull the rows of tables that each batch reads.
struct ScoredRange {
  uint64_t first = 0, end = 0;      // the records to score
  uint64_t next = 0;                // the first record still to score
  uint64_t batch = 0;               // how many records a batch has
  Batch examples;                   // the batch that ReadForScore has read
  SharedRows rows;                  // the rows of tables that this batch reads
  std::vector<MetricState> states;  // at first an empty state for each metric
  EvaluationReport report;          // complete once `next` is `end`
};
// Reads the batch that begins at `next`, and finds the rows that the batch reads.
absl::Status ReadForScore(Workload& workload, ScoredRange& range);
// Scores the batch that was read; `values` has only its rows of tables. Moves `next` on.
absl::Status ScoreWithRows(Workload& workload, ConstTensors values, ScoredRange& range);

}  // namespace paracord
