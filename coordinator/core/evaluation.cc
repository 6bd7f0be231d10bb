#include "coordinator/core/evaluation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metric.h"
#include "common/one_line.h"
#include "common/status_text.h"
#include "config/data_plan.h"

namespace paracord {

uint64_t PieceRecords(uint64_t records, uint32_t batch) {
  constexpr uint64_t kBatchesAPiece = 8;
  constexpr uint64_t kPieces = uint64_t{1} << 14;
  return std::max(kBatchesAPiece, records / batch / kPieces + 1) * batch;
}

Evaluation::Evaluation(uint64_t generation, uint64_t epoch, uint64_t records,
                       uint64_t piece_records, std::vector<std::string> metric_names)
    : generation_(generation),
      epoch_(epoch),
      records_(records),
      piece_records_(piece_records),
      metric_names_(std::move(metric_names)),
      pieces_(DivideUp(records, piece_records)) {}

bool Evaluation::HasFree() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return !piece.done && piece.lease == 0; });
}

std::optional<EvaluationLease> Evaluation::Grant(uint64_t lease_id, uint64_t session) {
  for (uint64_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].done || pieces_[i].lease != 0) continue;
    pieces_[i].lease = lease_id;
    pieces_[i].session = session;
    EvaluationLease lease;
    lease.set_id(lease_id);
    lease.set_generation(generation_);
    lease.set_epoch(epoch_);
    lease.set_first_record(i * piece_records_);
    lease.set_end_record(std::min((i + 1) * piece_records_, records_));
    return lease;
  }
  return std::nullopt;
}

absl::Status Evaluation::Report(const EvaluationReport& report) {
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& candidate) {
    return !candidate.done && candidate.lease == report.lease();
  });
  if (piece == pieces_.end() || report.lease() == 0) return absl::OkStatus();
  piece->lease = 0;
  if (report.problem() != PROBLEM_NONE) {
    return absl::UnavailableError(
        absl::StrCat("evaluation failed: ", OneLine(report.message(), kSendableBytesMax)));
  }
  const uint64_t first = static_cast<uint64_t>(piece - pieces_.begin()) * piece_records_;
  const uint64_t expected = std::min(piece_records_, records_ - first);
  if (report.examples() != expected ||
      static_cast<size_t>(report.metrics_size()) != metric_names_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an evaluation report has ", report.examples(), " examples and ", report.metrics_size(),
        " metrics; ", expected, " and ", metric_names_.size(), " were asked for"));
  }
  piece->metrics.assign(report.metrics().begin(), report.metrics().end());
  piece->done = true;
  ++done_pieces_;
  return absl::OkStatus();
}

bool Evaluation::EndSession(uint64_t session, const std::set<uint64_t>& held) {
  bool any = false;
  for (Piece& piece : pieces_) {
    if (piece.done || piece.lease == 0 || piece.session != session || held.contains(piece.lease)) {
      continue;
    }
    piece.lease = 0;
    any = true;
  }
  return any;
}

std::map<std::string, double> Evaluation::Metrics() const {
  std::map<std::string, double> values;
  for (size_t m = 0; m < metric_names_.size(); ++m) {
    MetricState sum;
    for (const Piece& piece : pieces_) MergeMetric(piece.metrics[m], sum);
    values[metric_names_[m]] = MetricValue(sum);
  }
  return values;
}

}  // namespace paracord
