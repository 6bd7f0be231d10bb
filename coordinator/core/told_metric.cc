#include "coordinator/core/told_metric.h"

#include <algorithm>

#include "common/metric.h"

namespace paracord {
namespace {

// Whether two states are of the same metric and can be added up.
bool SameKind(const MetricState& one, const MetricState& other) {
  return one.kind() == other.kind() && one.values_size() == other.values_size() &&
         one.label_weights_size() == other.label_weights_size();
}

}  // namespace

void ToldMetric::Add(const MetricState& state, uint64_t batches, const std::string& task) {
  auto kind =
      std::ranges::find_if(kinds_, [&](const Kind& each) { return SameKind(each.sum, state); });
  if (kind == kinds_.end()) {
    if (kinds_.size() == kKindsMax) return;
    kind = kinds_.insert(kind, Kind{{}, 0, task});
  }
  MergeMetric(state, kind->sum);
  kind->batches += batches;
}

const ToldMetric::Kind& ToldMetric::Counts() const {
  return *std::ranges::max_element(kinds_, {}, &Kind::batches);
}

std::vector<std::string> ToldMetric::TasksOfOthers() const {
  std::vector<std::string> tasks;
  for (const Kind& kind : kinds_) {
    if (&kind != &Counts()) tasks.push_back(kind.task);
  }
  return tasks;
}

}  // namespace paracord
