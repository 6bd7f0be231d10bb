// Predicts the cost of a batch under each strategy that a cluster can run, from measurements under
// the present strategy. Pure.
//
//   a step of a worker = waves x (compute + exchange)
//
// `waves`: how often a device of the worker computes for an update: once without rounds; in a round
// of R lanes, as often as the worker's devices need for its share of the lanes. `compute`: the time
// of a batch on one device, multiply-adds x examples / speed. `exchange`: the time from the
// gradient to the next values that is not hidden by computing: bytes / bandwidth, trips x latency,
// and the update in the stores. `exchange` is measured as a whole and scales with the bytes: bytes
// that leave a worker's process count in full, bytes for a store in the worker's own process by
// half, since the store applies and reads them but nothing travels. Half of the bytes of an
// exchange are pushed. With copies, gradients of a round are pushed to both ps of a partition: the
// exchange takes half as long again.
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
  double compute_seconds = 0;   // one batch on one device
  double exchange_seconds = 0;  // per batch: the time that is neither computing nor waiting
};

// A way to train that is possible in a cluster.
struct TrainingWay {
  std::string strategy;
  bool sync = false;
  size_t ps = 0;        // 0: the workers hold the variables
  bool copies = false;  // each partition has a second ps
};

struct PredictedStep {
  TrainingWay way;
  double seconds = 0;             // time of a step, in which all workers together train `batches`
  double batches = 0;             // number of batches that all workers train in a step
  double batches_per_second = 0;  // batches a second of the whole cluster
};

// Returns the cost of an exchange, relative to an exchange in which a gradient goes once from a
// worker to ps and values come from ps: less than 1 if workers hold the variables, more than 1 if
// the gradients of a round go to both ps of a partition.
double ExchangedShare(const TrainingWay& way, size_t workers);

// Returns the ways in which a cluster of this shape can train without further processes: on its ps,
// or on workers alone. Of strategies that differ only by name (TensorFlow has several), one is
// returned.
std::vector<TrainingWay> WaysOf(const ClusterShape& shape);

// Predicts a step of `way`. `measures` were taken while the cluster trained in the way `runs`.
// `round_batches` is the number of lanes in a round; nullopt: a batch for each device of each
// worker.
PredictedStep PredictStep(const StepMeasures& measures, const ClusterShape& shape,
                          const TrainingWay& runs, std::optional<uint64_t> round_batches,
                          const TrainingWay& way);

}  // namespace paracord
