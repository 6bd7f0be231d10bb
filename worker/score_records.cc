#include "worker/score_records.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/status_macros.h"

namespace paracord {
namespace {

absl::Status CheckRange(const Workload& workload, const ScoredRange& range) {
  const bool there = workload.test != nullptr && range.end <= workload.test->records();
  if (there && range.next <= range.end && range.batch > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the test data does not have the records to evaluate");
}

absl::Status ReadExamples(const Workload& workload, ScoredRange& range) {
  std::vector<uint64_t> records(std::min(range.batch, range.end - range.next));
  std::iota(records.begin(), records.end(), range.next);
  return workload.test->Read(records, range.examples);
}

absl::Status ScoreBatch(Workload& workload, ConstTensors values, ScoredRange& range) {
  RETURN_IF_ERROR(workload.program->Evaluate(range.examples, values, range.states));
  range.next += std::min(range.batch, range.end - range.next);
  return absl::OkStatus();
}

// A record that the data leaves out counts as scored, so that the ranges of all workers add up to
// the test data.
void Complete(ScoredRange& range, EvaluationReport& report) {
  report.set_examples(range.end - range.first);
  for (MetricState& state : range.states) *report.add_metrics() = std::move(state);
}

}  // namespace

absl::Status ReadForScore(Workload& workload, ScoredRange& range) {
  RETURN_IF_ERROR(CheckRange(workload, range));
  RETURN_IF_ERROR(ReadExamples(workload, range));
  ASSIGN_OR_RETURN(range.rows, workload.program->RowsOf(range.examples));
  return absl::OkStatus();
}

absl::Status ScoreWithRows(Workload& workload, ConstTensors values, ScoredRange& range) {
  workload.program->UseRows(range.rows);
  RETURN_IF_ERROR(ScoreBatch(workload, values, range));
  if (range.next == range.end) Complete(range, range.report);
  return absl::OkStatus();
}

namespace {

absl::StatusOr<ScoredRange> MakeScoredRange(const Workload& workload, uint64_t first, uint64_t end,
                                            uint64_t batch) {
  ScoredRange range;
  range.first = range.next = first;
  range.end = end;
  range.batch = batch;
  RETURN_IF_ERROR(CheckRange(workload, range));
  range.states.resize(workload.program->metric_names().size());
  return range;
}

}  // namespace

absl::Status Evaluate(Workload& workload, RowsForBatch& rows, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report) {
  if (!rows.any()) return Evaluate(workload, rows.whole(), first, end, batch, report);
  ASSIGN_OR_RETURN(ScoredRange range, MakeScoredRange(workload, first, end, batch));
  while (range.next < end) {
    RETURN_IF_ERROR(ReadForScore(workload, range));
    workload.program->UseRows(range.rows);
    ASSIGN_OR_RETURN(const ConstTensors values, rows.Of(*range.rows));
    RETURN_IF_ERROR(ScoreBatch(workload, values, range));
  }
  workload.program->UseRows(nullptr);
  Complete(range, report);
  return absl::OkStatus();
}

absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report) {
  ASSIGN_OR_RETURN(ScoredRange range, MakeScoredRange(workload, first, end, batch));
  workload.program->UseRows(nullptr);
  while (range.next < end) {
    RETURN_IF_ERROR(ReadExamples(workload, range));
    RETURN_IF_ERROR(ScoreBatch(workload, values, range));
  }
  Complete(range, report);
  return absl::OkStatus();
}

}  // namespace paracord
