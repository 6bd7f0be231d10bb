// Converts the status of a job to metrics, so that Prometheus and `paracord status` agree. A pure
// function.
#pragma once

#include <cstdint>

#include "monitor/metric_set.h"
#include "nlohmann/json.hpp"

namespace paracord {

// The most workers that get metrics of their own, to bound the number of labels.
inline constexpr size_t kWorkersShown = 256;
// `status` is the JSON of Report::StatusJson (core/report.h), and `unix_ms` the present time.
void AddStatusMetrics(const nlohmann::json& status, int64_t unix_ms, MetricSet& metrics);

}  // namespace paracord
