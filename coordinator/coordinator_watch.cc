// A coordinator tells here those who watch its job: the status page and Prometheus.
#include "common/json_text.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/report.h"
#include "coordinator/status_metrics.h"

namespace paracord {

// Called at each tick; the history takes what is old enough.
void Coordinator::Remember() {
  if (exiting_ || core_->phase() != Phase::kTraining) return;
  const int64_t unix_ms = environment_.loop.UnixMs();
  if (!history_.Takes(unix_ms)) return;
  history_.Add(unix_ms, Report(core_->View(), environment_.loop.NowMs()).TrainingChart());
}

std::string Coordinator::PageJson() const {
  constexpr size_t kPartitionsOfPs = 12;
  const int64_t unix_ms = environment_.loop.UnixMs();
  if (core_ == nullptr) {
    nlohmann::json status = {{"job", options_.job.name},
                             {"phase", "starting"},
                             {"waiting", Health().text},
                             {"unix_ms", unix_ms}};
    history_.AddTo(status);
    return TextOf(status);
  }
  nlohmann::json status = JsonOf(Report(core_->View(), environment_.loop.NowMs()).StatusJson());
  status["unix_ms"] = unix_ms;
  const auto largest = LargestPartitions(core_->View(), kPartitionsOfPs);
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
  AddStatusMetrics(JsonOf(Report(core_->View(), environment_.loop.NowMs()).StatusJson()),
                   environment_.loop.UnixMs(), metrics);
}

}  // namespace paracord
