#include "coordinator/core/evaluations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/probe.h"
#include "coordinator/core/early_stop.h"

namespace paracord {

void Evaluations::Restore(std::vector<EvaluationResult> results, std::optional<StopDecision> stop) {
  results_ = std::move(results);
  stop_ = std::move(stop);
}

std::span<const EvaluationResult> Evaluations::told() const {
  return std::span(results_).first(results_.size() - (unnotified_ ? 1 : 0));
}

bool Evaluations::Has(uint64_t epoch) const {
  return std::ranges::any_of(results_, [&](const auto& result) { return result.epoch == epoch; });
}

const EvaluationResult* Evaluations::Best() const {
  const std::optional<StopWhen>& when = job_.stop_when;
  if (!when.has_value() || !(when->patience.has_value() || when->restore_best)) return nullptr;
  const std::optional<size_t> best = BestEvaluation(results_, *when);
  return best.has_value() ? &results_[*best] : nullptr;
}

const EvaluationResult* Evaluations::KeptBest() const {
  return job_.stop_when.has_value() && job_.stop_when->restore_best ? Best() : nullptr;
}

bool Evaluations::Due(uint64_t epoch, uint64_t epochs) const {
  const uint64_t every = job_.evaluate_every_epochs;
  return epoch + 1 >= epochs || (every != 0 && (epoch + 1) % every == 0);
}

void Evaluations::Start(uint64_t generation, uint64_t epoch, uint64_t records,
                        std::vector<std::string> metric_names) {
  running_.emplace(generation, epoch, records, RangeRecords(records, job_.batch),
                   std::move(metric_names));
}

std::optional<EvaluationLease> Evaluations::Grant(uint64_t lease_id, uint64_t session) {
  if (!running_.has_value()) return std::nullopt;
  return running_->Grant(lease_id, session);
}

bool Evaluations::EndSession(uint64_t session, const std::set<uint64_t>& held) {
  return running_.has_value() && running_->EndSession(session, held);
}

Evaluations::ReportOutcome Evaluations::Report(uint64_t session, const EvaluationReport& report) {
  if (!running_->Has(session, report.lease())) return {};
  ReportOutcome taken{running_->Report(report)};
  if (taken.status.ok()) data_failures_ = 0;
  // A record that cannot be scored cannot be skipped: an evaluation is exact, or fails.
  taken.limit = report.problem() == PROBLEM_LIMIT;
  taken.hopeless = (report.problem() == PROBLEM_DATA || taken.limit) &&
                   ++data_failures_ >= job_.failures.per_batch;
  return taken;
}

bool Evaluations::FinishIfDone() {
  if (!running_.has_value() || !running_->Done()) return false;
  const uint64_t epoch = running_->epoch();
  results_.push_back({epoch, running_->Metrics()});
  if (job_.stop_when.has_value() && !stop_.has_value()) {
    std::optional<std::string> why = WhyStop(results_, *job_.stop_when);
    if (why.has_value()) stop_ = StopDecision{epoch + 1, *std::move(why)};
  }
  running_.reset();
  unsaved_ = unnotified_ = true;
  return true;
}

bool Evaluations::Void(uint64_t first_epoch) {
  const size_t voided = std::erase_if(
      results_, [&](const EvaluationResult& result) { return result.epoch >= first_epoch; });
  if (voided == 0) return false;
  if (stop_.has_value() && stop_->epochs > first_epoch) stop_.reset();
  PROBE("coordinator.evaluation.voided");
  unnotified_ = false;
  unsaved_ = true;
  return true;
}

void Evaluations::Clear() {
  results_.clear();
  unnotified_ = false;
}

std::string InWords(const EvaluationResult& result, uint64_t epochs) {
  std::string text = absl::StrCat("epoch ", result.epoch + 1, "/", epochs, ": test");
  for (const auto& [name, value] : result.metrics) {
    absl::StrAppend(&text, " ", name, "=", absl::StrFormat("%.4f", value));
  }
  return text;
}

}  // namespace paracord
