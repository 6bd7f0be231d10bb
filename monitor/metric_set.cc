#include "monitor/metric_set.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <map>

namespace paracord {

// Families in the order of their first addition.
struct MetricSet::Families {
  std::vector<prometheus::MetricFamily> all;
  std::map<std::string, size_t> by_name;

  prometheus::ClientMetric& New(const std::string& name, const std::string& help,
                                prometheus::MetricType type, const Labels& common,
                                const Labels& labels) {
    const auto [it, is_new] = by_name.emplace(name, all.size());
    if (is_new) all.push_back({name, help, type, {}});
    prometheus::ClientMetric& metric = all[it->second].metric.emplace_back();
    for (const Labels* const some : {&common, &labels}) {
      for (const auto& [label, value] : *some) metric.label.push_back({label, value});
    }
    return metric;
  }
};

MetricSet::MetricSet(Labels common)
    : common_(std::move(common)), families_(std::make_unique<Families>()) {}

MetricSet::~MetricSet() = default;

void MetricSet::Counter(const std::string& name, const std::string& help, double value,
                        Labels labels) {
  families_->New(name, help, prometheus::MetricType::Counter, common_, labels).counter.value =
      value;
}

void MetricSet::Gauge(const std::string& name, const std::string& help, double value,
                      Labels labels) {
  families_->New(name, help, prometheus::MetricType::Gauge, common_, labels).gauge.value = value;
}

void MetricSet::Add(const std::string& name, const std::string& help, const Histogram& histogram,
                    Labels labels) {
  auto& to = families_->New(name, help, prometheus::MetricType::Histogram, common_, labels);
  const Histogram::Snapshot from = histogram.Read();
  uint64_t below = 0;
  for (size_t i = 0; i < from.counts.size(); ++i) {
    below += from.counts[i];
    const double bound =
        i < from.bounds.size() ? from.bounds[i] : std::numeric_limits<double>::infinity();
    prometheus::ClientMetric::Bucket bucket;
    bucket.cumulative_count = below;
    bucket.upper_bound = bound;
    to.histogram.bucket.push_back(bucket);
  }
  to.histogram.sample_count = below;
  to.histogram.sample_sum = from.sum;
}

std::string MetricSet::Text() const {
  return prometheus::TextSerializer().Serialize(families_->all);
}

}  // namespace paracord
