#include "coordinator/core/evaluation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/metric.h"
#include "common/one_line.h"
#include "common/status_text.h"
#include "config/data_plan.h"
#include "coordinator/core/limits.h"

namespace paracord {

uint64_t RangeRecords(uint64_t records, uint32_t batch) {
  constexpr uint64_t kBatchesARange = 8;
  constexpr uint64_t kRanges = uint64_t{1} << 14;
  return std::max(kBatchesARange, records / batch / kRanges + 1) * batch;
}

Evaluation::Evaluation(uint64_t generation, uint64_t epoch, uint64_t records,
                       uint64_t range_records, std::vector<std::string> metric_names)
    : generation_(generation),
      epoch_(epoch),
      records_(records),
      range_records_(range_records),
      metric_names_(std::move(metric_names)),
      ranges_(DivideUp(records, range_records)) {}

bool Evaluation::HasFree() const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [](const Range& range) { return !range.done && range.lease == 0; });
}

bool Evaluation::Has(uint64_t session, uint64_t lease_id) const {
  return lease_id != 0 && std::ranges::any_of(ranges_, [&](const Range& range) {
           return !range.done && range.lease == lease_id && range.session == session;
         });
}

std::optional<EvaluationLease> Evaluation::Grant(uint64_t lease_id, uint64_t session) {
  const auto held = std::ranges::count_if(ranges_, [&](const Range& range) {
    return !range.done && range.lease != 0 && range.session == session;
  });
  if (static_cast<uint64_t>(held) >= kLeasesOfSessionMax) return std::nullopt;
  for (uint64_t i = 0; i < ranges_.size(); ++i) {
    if (ranges_[i].done || ranges_[i].lease != 0) continue;
    ranges_[i].lease = lease_id;
    ranges_[i].session = session;
    EvaluationLease lease;
    lease.set_id(lease_id);
    lease.set_generation(generation_);
    lease.set_epoch(epoch_);
    lease.set_first_record(i * range_records_);
    lease.set_end_record(std::min((i + 1) * range_records_, records_));
    return lease;
  }
  return std::nullopt;
}

absl::Status Evaluation::Report(const EvaluationReport& report) {
  const auto range = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& candidate) {
    return !candidate.done && candidate.lease == report.lease();
  });
  if (range == ranges_.end() || report.lease() == 0) return absl::OkStatus();
  range->lease = 0;
  if (const uint64_t bytes = report.ByteSizeLong(); bytes > kKeptReportBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("an evaluation report has ", HumanBytes(bytes),
                                                   ", and at most ",
                                                   HumanBytes(kKeptReportBytesMax), " are taken"));
  }
  if (report.problem() != PROBLEM_NONE) {
    return absl::UnavailableError(
        absl::StrCat("evaluation failed: ", OneLine(report.message(), kSendableBytesMax)));
  }
  const uint64_t first = static_cast<uint64_t>(range - ranges_.begin()) * range_records_;
  const uint64_t expected = std::min(range_records_, records_ - first);
  if (report.examples() != expected ||
      static_cast<size_t>(report.metrics_size()) != metric_names_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an evaluation report has ", report.examples(), " examples and ", report.metrics_size(),
        " metrics; ", expected, " and ", metric_names_.size(), " were asked for"));
  }
  range->metrics.assign(report.metrics().begin(), report.metrics().end());
  range->done = true;
  ++done_ranges_;
  return absl::OkStatus();
}

bool Evaluation::EndSession(uint64_t session, const std::set<uint64_t>& held) {
  bool any = false;
  for (Range& range : ranges_) {
    if (range.done || range.lease == 0 || range.session != session || held.contains(range.lease)) {
      continue;
    }
    range.lease = 0;
    any = true;
  }
  return any;
}

std::map<std::string, double> Evaluation::Metrics() const {
  std::map<std::string, double> values;
  for (size_t m = 0; m < metric_names_.size(); ++m) {
    MetricState sum;
    for (const Range& range : ranges_) MergeMetric(range.metrics[m], sum);
    values[metric_names_[m]] = MetricValue(sum);
  }
  return values;
}

}  // namespace paracord
