// A daemon's metrics at one instant: every part of the daemon adds metrics, read from its state, to
// a new set, so no figure is stored twice. Names follow Prometheus' conventions and begin with
// paracord_, or process_ for facts of any process. Each label has few values. Used on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/histogram.h"

namespace paracord {

class MetricSet {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `common`: labels of every sample, such as role and task.
  explicit MetricSet(Labels common = {});
  ~MetricSet();
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  // Adds a figure that never falls during the life of the process. `name` ends with _total.
  void Counter(const std::string& name, const std::string& help, double value, Labels labels = {});
  // Adds a figure that rises and falls.
  void Gauge(const std::string& name, const std::string& help, double value, Labels labels = {});
  void Add(const std::string& name, const std::string& help, const Histogram& histogram,
           Labels labels = {});

  // Returns the text format that Prometheus scrapes.
  std::string Text() const;

 private:
  struct Families;
  const Labels common_;
  const std::unique_ptr<Families> families_;
};

// Adds the metrics of any process: memory, descriptors, CPU time, start time and build. `insecure`:
// whether the process serves other machines without TLS.
void AddProcessMetrics(const std::string& version, bool insecure, MetricSet& metrics);

}  // namespace paracord
