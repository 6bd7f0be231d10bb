// A histogram with fixed buckets. A bucket counts the values above the bound of the bucket before
// it, and up to its own bound; monitor/metric_set.cc adds up the cumulative counts that Prometheus
// wants. Any thread may call Observe and Read at any time. A Snapshot may count a value that its
// sum lacks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

// Upper bounds for times in seconds, from below a millisecond to a minute.
inline constexpr double kSecondsBounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                            0.25,   0.5,   1,      2.5,   5,    10,    30,   60};
// Upper bounds for small counts.
inline constexpr double kCountBounds[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128};

class Histogram {
 public:
  struct Snapshot {
    // The upper bound of each bucket but the last, ascending; a bucket includes its bound.
    std::vector<double> bounds;
    // One count for each bucket. The last bucket has the values above all bounds.
    std::vector<uint64_t> counts;
    double sum = 0;
  };

  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

  void Observe(double value) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  Snapshot Read() const {
    Snapshot snapshot{bounds_, {}, sum_.load(std::memory_order_relaxed)};
    for (const auto& count : counts_) {
      snapshot.counts.push_back(count.load(std::memory_order_relaxed));
    }
    return snapshot;
  }

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

// Returns seconds of a monotonic clock that is finer than the event loop's milliseconds. For
// reported figures only: the simulator does not control this clock.
inline double FigureSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace paracord
