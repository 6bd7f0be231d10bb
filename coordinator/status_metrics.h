// A job's status as metrics, so that Prometheus and people are told the same. Pure.
#pragma once

#include <cstdint>

#include "monitor/metric_set.h"
#include "nlohmann/json.hpp"

namespace paracord {

// `status` is what CoordinatorCore::StatusJson says. Workers beyond the first kWorkersShown have no
// metrics of their own, so that labels stay few.
inline constexpr size_t kWorkersShown = 256;
void AddStatusMetrics(const nlohmann::json& status, int64_t unix_ms, MetricSet& metrics);

}  // namespace paracord
