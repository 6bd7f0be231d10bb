#include "common/metric.h"

#include <limits>

namespace paracord {

void MergeMetric(const MetricState& state, MetricState& sum) {
  while (sum.values_size() < state.values_size()) sum.add_values(0);
  for (int i = 0; i < state.values_size(); ++i) {
    sum.set_values(i, sum.values(i) + state.values(i));
  }
}

double MetricValue(const std::string& /*name*/, const MetricState& state) {
  if (state.values_size() < 2 || state.values(1) == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return state.values(0) / state.values(1);
}

}  // namespace paracord
