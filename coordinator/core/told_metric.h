// The sum of one metric over the batches of an epoch, as workers tell it. Which kind of state the
// metric has is known to workers alone, and a worker may be wrong or lie. Every reported kind has
// its own sum, up to kKindsMax, and the kind reported for most batches wins. Owned by EpochHistory.
// A value; pure.
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

  // Adds the state of some batches, which `task` tells. A kind that comes when there are kKindsMax
  // others is ignored.
  void Add(const MetricState& state, uint64_t batches, const std::string& task);

  // The sum of the kind that counts, and its batches; an empty state, and 0, if nothing was told.
  MetricState sum() const { return kinds_.empty() ? MetricState() : Counts().sum; }
  uint64_t batches() const { return kinds_.empty() ? 0 : Counts().batches; }
  // For each kind that does not count, the task that told it first.
  std::vector<std::string> TasksOfOthers() const;

 private:
  struct Kind {
    MetricState sum;
    uint64_t batches = 0;
    std::string task;
  };
  const Kind& Counts() const;

  std::vector<Kind> kinds_;  // in the order in which they were first told
};

}  // namespace paracord
