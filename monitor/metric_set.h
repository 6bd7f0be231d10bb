// The metrics of a daemon at one moment, which its parts fill in when Prometheus asks: nothing is
// counted twice, since each figure is read where it is kept. Names follow Prometheus' conventions
// and begin with paracord_ (process_ for what every process has); labels have few values. Used on
// one thread.
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

  // `common` is given to every sample, such as the role and the task.
  explicit MetricSet(Labels common = {});
  ~MetricSet();
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  // A figure that only grows in a life of the process; its name ends with _total.
  void Counter(const std::string& name, const std::string& help, double value, Labels labels = {});
  // A figure that rises and falls.
  void Gauge(const std::string& name, const std::string& help, double value, Labels labels = {});
  void Add(const std::string& name, const std::string& help, const Histogram& histogram,
           Labels labels = {});

  // The text that Prometheus scrapes.
  std::string Text() const;

 private:
  struct Families;
  const Labels common_;
  const std::unique_ptr<Families> families_;
};

// Adds what every process has: memory, descriptors, processor time, its start, and what was built.
// `insecure` says that it serves more than this machine without TLS.
void AddProcessMetrics(const std::string& version, bool insecure, MetricSet& metrics);

}  // namespace paracord
