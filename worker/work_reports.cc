#include "worker/work_reports.h"

#include <algorithm>

#include "common/status_text.h"

namespace paracord {
namespace {

constexpr int64_t kReportMs = 50;

}  // namespace

void WorkReports::BeginSession() {
  reports_.clear();
  evaluation_.reset();
  reporting_ = asking_ = false;
  telling_.clear();
  SetLate({});
}

void WorkReports::SetLate(std::vector<uint32_t> late) {
  if (late.empty()) late_said_.clear();
  late_ = std::move(late);
}

void WorkReports::SayLate(WorkRequest& request) {
  for (const uint32_t lane : late_) request.add_late(lane);
  late_said_ = late_;
}

// Progress within a lease is reported now and then: a later batch reports the progress of batches
// before.
bool WorkReports::Due(int64_t now_ms, bool at_once) const {
  if (reporting_) return false;
  const bool ended =
      std::ranges::any_of(reports_, [](const auto& report) { return report.second.ended(); });
  const bool progress = !reports_.empty() && now_ms - reported_ms_ >= kReportMs;
  return ended || progress || evaluation_.has_value() || late_ != late_said_ || at_once;
}

WorkRequest WorkReports::Begin(bool ask, const std::vector<uint64_t>& held, int64_t now_ms) {
  reported_ms_ = now_ms;
  WorkRequest request;
  for (auto& [lease, report] : reports_) *request.add_leases() = std::move(report);
  reports_.clear();
  if (evaluation_.has_value()) *request.mutable_evaluation() = *std::move(evaluation_);
  evaluation_.reset();
  if (!unreported_.empty()) {  // what was said before and perhaps not heard comes first
    const auto [number, counters] = *unreported_.begin();
    unreported_.erase(unreported_.begin());
    request.set_report(number);
    request.set_computed(counters.computed);
    request.set_duplicates(counters.duplicates);
    request.set_samples(counters.samples);
    request.set_loss_sum(counters.loss_sum);
    request.set_staleness_sum(counters.staleness_sum);
    request.set_compute_seconds(counters.compute_seconds);
    request.set_waited_seconds(counters.waited_seconds);
    request.set_program_losses(counters.program.count);
    request.set_program_lost(Sendable(counters.program.last));
    for (const TrainedBatches& trained : counters.trained.batches) *request.add_trained() = trained;
    for (const std::string& bad : counters.trained.bad_records) request.add_bad_records(bad);
  }
  SayLate(request);
  request.set_want_task(ask);
  if (ask) {
    for (const uint64_t id : held) request.add_holds(id);
    for (const uint64_t id : telling_) request.add_holds(id);
  } else {
    for (const LeaseReport& each : request.leases()) {
      if (each.ended()) telling_.push_back(each.lease());
    }
    if (request.has_evaluation()) telling_.push_back(request.evaluation().lease());
  }
  (ask ? asking_ : reporting_) = true;
  return request;
}

void WorkReports::End(const WorkRequest& sent) {
  (sent.want_task() ? asking_ : reporting_) = false;
  if (!sent.want_task()) telling_.clear();
}

void WorkReports::PutBack(const WorkRequest& sent) {
  for (const LeaseReport& report : sent.leases()) reports_.try_emplace(report.lease(), report);
  if (sent.has_evaluation() && !evaluation_.has_value()) evaluation_ = sent.evaluation();
  late_said_.clear();
}

void WorkReports::PutBackCounters(const WorkRequest& sent) {
  if (sent.report() == 0) return;
  unreported_[sent.report()] = {
      .computed = sent.computed(),
      .duplicates = sent.duplicates(),
      .samples = sent.samples(),
      .loss_sum = sent.loss_sum(),
      .staleness_sum = sent.staleness_sum(),
      .compute_seconds = sent.compute_seconds(),
      .waited_seconds = sent.waited_seconds(),
      .program = {sent.program_losses(), sent.program_lost()},
      .trained = {{sent.trained().begin(), sent.trained().end()},
                  {sent.bad_records().begin(), sent.bad_records().end()}}};
}

}  // namespace paracord
