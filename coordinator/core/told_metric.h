// The sum of one metric over the batches of an epoch, as workers report it. Two states of a metric
// are of one kind, and can be added up, if they have the same MetricKind, equally many values and
// equally many label weights. Only workers
// know the kind, and a worker may be wrong or lie: each reported kind has its own sum, up to
// kKindsMax kinds, and the kind reported for most batches wins. Owned by EpochHistory. Does no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

class ToldMetric {
 public:
  static constexpr size_t kKindsMax = 4;

  // Adds the state of the metric over `batches` batches, reported by `task`. A new kind beyond
  // kKindsMax is ignored.
  void Add(const MetricState& state, uint64_t batches, const std::string& task);

  // The sum of the winning kind, and its batches; an empty state and 0 if none was reported.
  MetricState sum() const { return kinds_.empty() ? MetricState() : Counts().sum; }
  uint64_t batches() const { return kinds_.empty() ? 0 : Counts().batches; }
  // For each losing kind, the task that first reported it.
  std::vector<std::string> TasksOfOthers() const;

 private:
  struct Kind {
    MetricState sum;
    uint64_t batches = 0;
    std::string task;
  };
  const Kind& Counts() const;  // the winning kind

  std::vector<Kind> kinds_;  // in the order of their first report
};

}  // namespace paracord
