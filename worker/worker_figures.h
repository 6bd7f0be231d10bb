// Counts for monitoring what a worker has done since its process began. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/histogram.h"
#include "monitor/metric_set.h"

namespace paracord {

struct WorkerFigures {
  std::atomic<uint64_t> computed{0};
  std::atomic<uint64_t> samples{0};     // examples in batches that were applied
  std::atomic<uint64_t> duplicates{0};  // pushed batches that no partition applied
  std::atomic<uint64_t> failed{0};      // leases that ended with a problem
  std::atomic<uint64_t> sessions{0};
  std::atomic<uint64_t> waited_ms{0};  // how long exchanges waited for lanes of other workers
  Histogram compute_seconds{kSecondsBounds};
  Histogram exchange_seconds{kSecondsBounds};
  Histogram staleness{kCountBounds};

  void AddTo(MetricSet& metrics) const {
    const auto counter = [&](const char* name, const char* help, uint64_t value) {
      metrics.Counter(name, help, static_cast<double>(value));
    };
    counter("paracord_worker_batches_total", "Batches computed.", computed);
    counter("paracord_worker_samples_total", "Samples of batches that were applied.", samples);
    counter("paracord_worker_duplicates_total", "Batches that had been applied before.",
            duplicates);
    counter("paracord_worker_failures_total", "Leases that ended with a problem.", failed);
    counter("paracord_worker_sessions_total", "Sessions that began.", sessions);
    metrics.Counter(
        "paracord_worker_waited_seconds_total",
        "Time in which it waited for the lanes of others, in pulls that had to be repeated.",
        static_cast<double>(waited_ms) / 1000);
    metrics.Add("paracord_worker_compute_seconds", "Time to compute a batch, with its data.",
                compute_seconds);
    metrics.Add("paracord_worker_exchange_seconds",
                "Time from a push or pull to the last answer of the ps.", exchange_seconds);
    metrics.Add("paracord_worker_staleness_updates",
                "Updates of others between a batch's pull and its push, the most of a partition.",
                staleness);
  }
};

}  // namespace paracord
