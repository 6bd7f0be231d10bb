#include "coordinator/core/cost_status.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "config/step_cost.h"
#include "config/strategy.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kMeasuredLeast = 50;  // batches of each lane, or of the job without lanes

// The shape of the cluster spec, with the devices that its workers report.
ClusterShape NamedShape(const JobView& job) {
  ClusterShape shape{.ps = job.options.nodes ? 0 : job.ps.size(),
                     .workers = job.options.workers.size()};
  for (const auto& [id, session] : job.sessions.all()) {
    shape.devices = std::max<size_t>(shape.devices, session.devices);
  }
  return shape;
}

}  // namespace

json StrategyJson(const JobView& job) {
  const StrategyChoice choice = ExplainStrategy(job.options.job.guarantees, NamedShape(job));
  return {{"name", choice.name}, {"why", choice.why}};
}

json CostJson(const JobView& job) {
  const Throughput::Steps& steps = job.throughput.steps();
  const GuaranteesSpec& guarantees = job.options.job.guarantees;
  if (!job.record.fixed()) return nullptr;
  const uint32_t lanes = job.record.plan().lanes();
  if (steps.batches < kMeasuredLeast * std::max<uint32_t>(lanes, 1)) return nullptr;
  const auto batches = static_cast<double>(steps.batches);
  const double left = steps.seconds - steps.waited_seconds - steps.compute_seconds / steps.devices;
  const StepMeasures measures{.compute_seconds = steps.compute_seconds / batches,
                              .exchange_seconds = std::max(left, 0.0) / batches};
  const ClusterShape shape{.ps = job.options.nodes ? 0 : job.ps.size(),
                           .workers = std::max<size_t>(steps.workers, 1),
                           .devices = steps.devices};
  const TrainingWay runs{ExplainStrategy(guarantees, NamedShape(job)).name, guarantees.sync(),
                         shape.ps, job.options.HasCopies()};
  const std::optional<uint64_t> round =
      guarantees.sync() ? std::optional<uint64_t>(lanes) : std::nullopt;
  std::vector<TrainingWay> ways = WaysOf(shape);
  const auto is_running = [&](const TrainingWay& way) {
    return way.sync == runs.sync && (way.ps == 0) == (runs.ps == 0);
  };
  if (std::ranges::none_of(ways, is_running)) ways.push_back(runs);
  for (TrainingWay& way : ways) way.copies = runs.copies && way.ps > 0;
  std::vector<std::pair<PredictedStep, bool>> predicted;
  for (TrainingWay& way : ways) {
    const bool now = is_running(way);
    if (now) way.strategy = runs.strategy;
    predicted.emplace_back(PredictStep(measures, shape, runs, round, way), now);
  }
  std::ranges::stable_sort(predicted, [](const auto& a, const auto& b) {
    return a.first.batches_per_second > b.first.batches_per_second;
  });
  json all = json::array();
  for (const auto& [step, now] : predicted) {
    all.push_back({{"strategy", step.way.strategy},
                   {"consistency", step.way.sync ? "sync" : "async"},
                   {"ps", step.way.ps},
                   {"step_seconds", step.seconds},
                   {"step_batches", step.batches},
                   {"batches_per_second", step.batches_per_second},
                   {"runs", now}});
  }
  const double rate = steps.seconds > 0 ? batches / steps.seconds : 0;
  return {{"measured",
           {{"batches", steps.batches},
            {"workers", shape.workers},
            {"devices", steps.devices},
            {"compute_seconds", measures.compute_seconds},
            {"exchange_seconds", measures.exchange_seconds},
            {"waited_seconds", steps.waited_seconds / batches},
            {"batches_per_second", rate * static_cast<double>(shape.workers)}}},
          {"overlap", job.options.job.overlap},
          {"predicted", std::move(all)}};
}

}  // namespace paracord
