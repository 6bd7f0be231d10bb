// Scores ranges of the test data's records, for workers, the evaluator and `paracord evaluate`.
// Used on the thread that computes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/rows_for_batch.h"
#include "worker/table_rows.h"

namespace paracord {

// Scores records [first, end) in batches of `batch` records with `values`, which has all rows of
// tables, and sets examples and metrics of `report`. An error of the data names file and record.
absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// Like Evaluate above, with the values that `rows` gives each batch.
absl::Status Evaluate(Workload& workload, RowsForBatch& rows, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

// A range of records that a caller scores batch after batch, by ReadForScore and ScoreWithRows,
// because it has to pull the rows of tables that each batch reads.
struct ScoredRange {
  uint64_t first = 0, end = 0;      // the records to score
  uint64_t next = 0;                // the first record still to score
  uint64_t batch = 0;               // how many records a batch has
  Batch examples;                   // the batch that ReadForScore has read
  SharedRows rows;                  // the rows of tables that `examples` reads
  std::vector<MetricState> states;  // for each metric; the caller sets empty states at first
  EvaluationReport report;          // complete once `next` is `end`
};
// Reads the batch that begins at record `next`, and sets which rows of tables it reads.
absl::Status ReadForScore(Workload& workload, ScoredRange& range);
// Scores the batch in `examples`, and moves `next` to the end of the batch. `values` has the rows
// of tables in `rows` and no other.
absl::Status ScoreWithRows(Workload& workload, ConstTensors values, ScoredRange& range);

}  // namespace paracord
