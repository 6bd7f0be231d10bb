// What a coordinator shows to the status page and to Prometheus.
#include <algorithm>

#include "common/json_text.h"
#include "common/status_text.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/report.h"
#include "coordinator/status_metrics.h"
#include "proto/protocol.h"

namespace paracord {

// Called at each tick; the history samples at its own interval.
void Coordinator::Remember() {
  if (exiting_ || core_->phase() != Phase::kTraining) return;
  const int64_t unix_ms = environment_.loop.UnixMs();
  if (!history_.Takes(unix_ms)) return;
  history_.Add(unix_ms, Report(core_->View(), environment_.loop.NowMs()).TrainingChart());
}

// While the page polls, once a second, the exit waits, so that the page shows how the job ended.
void Coordinator::LeaveWith(Exit exit) {
  constexpr int64_t kWatchedMs = 3000, kLastLookMs = 1500;
  exiting_ = true;
  exit_with_ = std::move(exit);
  const auto leave = [this] { exit_(exit_with_->code, exit_with_->reason); };
  const int64_t now_ms = environment_.loop.NowMs();
  if (!watched_ms_.has_value() || now_ms - *watched_ms_ > kWatchedMs) return leave();
  environment_.loop.PostAfter(kLastLookMs, gate_.Enter(leave));
}

void Coordinator::AddCertificate(nlohmann::json& status) const {
  if (options_.certificate_expires_s == nullptr) return;
  const int64_t expires_s = options_.certificate_expires_s();
  const double left_s =
      static_cast<double>(expires_s) - static_cast<double>(environment_.loop.UnixMs()) / 1000;
  status["certificate"] = {{"expires_unix_s", expires_s}, {"days_left", left_s / (24 * 3600)}};
}

void Coordinator::NoteRefused(const std::string& sentence) {
  history_.AddEvent(environment_.loop.UnixMs(), "warn", sentence);
}

std::string Coordinator::PageJson() {
  constexpr size_t kPartitionsOfPs = 12;
  constexpr uint64_t kEpochsShown = 100;
  watched_ms_ = environment_.loop.NowMs();
  const int64_t unix_ms = environment_.loop.UnixMs();
  if (core_ == nullptr) {
    nlohmann::json status = {{"job", options_.job.name},
                             {"phase", "starting"},
                             {"waiting", Health().text},
                             {"unix_ms", unix_ms}};
    if (exit_with_.has_value()) {
      status["phase"] = "ended";
      status["exit"] = {{"code", exit_with_->code}, {"reason", Sendable(exit_with_->reason)}};
    }
    history_.AddTo(status);
    return TextOf(status);
  }
  const JobView view = core_->View();
  const uint64_t closed = view.history.closed();
  const uint64_t from = closed - std::min(closed, kEpochsShown);
  nlohmann::json status = JsonOf(Report(view, environment_.loop.NowMs()).StatusJson(from));
  status["unix_ms"] = unix_ms;
  AddCertificate(status);
  const auto largest = LargestPartitions(view, kPartitionsOfPs);
  for (size_t i = 0; i < status["ps"].size() && i < largest.size(); ++i) {
    nlohmann::json& shown = status["ps"][i]["largest"] = nlohmann::json::array();
    for (const PartitionSize& partition : largest[i]) {
      shown.push_back({{"name", partition.name}, {"bytes", partition.bytes}});
    }
  }
  history_.AddTo(status);
  return TextOf(status);
}

void Coordinator::AddMetrics(MetricSet& metrics) const {
  if (core_ == nullptr) return;
  const Report report(core_->View(), environment_.loop.NowMs());
  AddStatusMetrics(JsonOf(report.StatusJson(kNoHistory)), environment_.loop.UnixMs(), metrics);
}

}  // namespace paracord
