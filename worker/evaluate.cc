#include "worker/evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/status_macros.h"

namespace paracord {
namespace {

absl::Status CheckPiece(const Workload& workload, const ScoredPiece& piece) {
  const bool there = workload.test != nullptr && piece.end <= workload.test->records();
  if (there && piece.next <= piece.end && piece.batch > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the test data does not have the records to evaluate");
}

absl::Status ReadExamples(const Workload& workload, ScoredPiece& piece) {
  std::vector<uint64_t> records(std::min(piece.batch, piece.end - piece.next));
  std::iota(records.begin(), records.end(), piece.next);
  return workload.test->Read(records, piece.examples);
}

absl::Status ScorePiece(Workload& workload, ConstTensors values, ScoredPiece& piece) {
  RETURN_IF_ERROR(workload.program->Evaluate(piece.examples, values, piece.states));
  piece.next += piece.examples.examples;
  piece.report.set_examples(piece.report.examples() + piece.examples.examples);
  return absl::OkStatus();
}

void AddMetrics(ScoredPiece& piece, EvaluationReport& report) {
  for (MetricState& state : piece.states) *report.add_metrics() = std::move(state);
}

}  // namespace

absl::Status ReadForScore(Workload& workload, ScoredPiece& piece) {
  RETURN_IF_ERROR(CheckPiece(workload, piece));
  RETURN_IF_ERROR(ReadExamples(workload, piece));
  ASSIGN_OR_RETURN(piece.rows, workload.program->RowsOf(piece.examples));
  return absl::OkStatus();
}

absl::Status ScoreWithRows(Workload& workload, ConstTensors values, ScoredPiece& piece) {
  workload.program->UseRows(piece.rows);
  RETURN_IF_ERROR(ScorePiece(workload, values, piece));
  if (piece.next == piece.end) AddMetrics(piece, piece.report);
  return absl::OkStatus();
}

namespace {

absl::StatusOr<ScoredPiece> MakeScoredPiece(const Workload& workload, uint64_t first, uint64_t end,
                                            uint64_t batch) {
  ScoredPiece piece;
  piece.next = first;
  piece.end = end;
  piece.batch = batch;
  RETURN_IF_ERROR(CheckPiece(workload, piece));
  piece.states.resize(workload.program->metric_names().size());
  return piece;
}

}  // namespace

absl::Status Evaluate(Workload& workload, RowsOfWhole& rows, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report) {
  if (!rows.any()) return Evaluate(workload, rows.whole(), first, end, batch, report);
  ASSIGN_OR_RETURN(ScoredPiece piece, MakeScoredPiece(workload, first, end, batch));
  while (piece.next < end) {
    RETURN_IF_ERROR(ReadForScore(workload, piece));
    workload.program->UseRows(piece.rows);
    RETURN_IF_ERROR(ScorePiece(workload, rows.Of(*piece.rows), piece));
  }
  workload.program->UseRows(nullptr);
  report.set_examples(end - first);
  AddMetrics(piece, report);
  return absl::OkStatus();
}

absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report) {
  ASSIGN_OR_RETURN(ScoredPiece piece, MakeScoredPiece(workload, first, end, batch));
  workload.program->UseRows(nullptr);
  while (piece.next < end) {
    RETURN_IF_ERROR(ReadExamples(workload, piece));
    RETURN_IF_ERROR(ScorePiece(workload, values, piece));
  }
  report.set_examples(end - first);
  AddMetrics(piece, report);
  return absl::OkStatus();
}

}  // namespace paracord
