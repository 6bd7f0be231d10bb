// What a batch costs under each strategy that a cluster can run, predicted from what was measured
// under the strategy that runs. Pure.
//
//   a step of a worker = waves x (compute + exchange)
//
// `waves`: how often a worker computes for an update: once without rounds, and in a round of R
// lanes as often as its devices need for its share of the lanes. `compute`: a batch on one device,
// which is multiply-adds x examples / speed. `exchange`: from the gradient to the next values, as
// far as nothing hides it: bytes / bandwidth, trips x latency, and the update in the stores. It is
// measured as a whole, and goes with the bytes: those that leave a worker's process count whole,
// and those that a worker hands to a store in its own process half, since they are applied and read
// alike and only do not travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/strategy.h"

namespace paracord {

// Means over the batches that were measured.
struct StepMeasures {
  double compute_seconds = 0;   // of a batch on one device
  double exchange_seconds = 0;  // of a batch: what computing and waiting for others leave over
};

// A way to train that a cluster has.
struct TrainingWay {
  std::string strategy;
  bool sync = false;
  size_t ps = 0;  // 0: the workers hold the variables
};

struct PredictedStep {
  TrainingWay way;
  double seconds = 0;             // of a worker's step, which is of `batches` of the cluster
  double batches = 0;             // in that time, by all workers
  double batches_per_second = 0;  // of the whole cluster
};

// Returns the part of a gradient that counts in an exchange: 1 if all of it goes to other
// processes.
double ExchangedShare(const TrainingWay& way, size_t workers);

// Returns the ways in which a cluster of this shape can train without another process: on its ps,
// or on its workers alone. Those that TensorFlow alone tells apart are one.
std::vector<TrainingWay> WaysOf(const ClusterShape& shape);

// Predicts a step. `runs` is how the measures came about, and `round_batches` its R, or nullopt if
// it has none: then a round of another way has a batch for each device of each worker.
PredictedStep PredictStep(const StepMeasures& measures, const ClusterShape& shape,
                          const TrainingWay& runs, std::optional<uint64_t> round_batches,
                          const TrainingWay& way);

}  // namespace paracord
