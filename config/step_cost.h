// Predicts the cost of a batch under each strategy that a cluster can run, from measurements under
// the present strategy. Pure.
//
//   a step of a worker = waves x (compute + exchange)
//
// `waves`: how often a worker computes for an update: once without rounds; in a round of R lanes,
// as often as its devices need for the worker's share of the lanes. `compute`: a batch on one
// device, multiply-adds x examples / speed. `exchange`: the time from the gradient to the next
// values that no computing hides: bytes / bandwidth, trips x latency, and the update in the stores.
// It is measured as a whole and scales with the bytes: bytes that leave a worker's process count in
// full, bytes for a store in the worker's own process by half, since the store applies and reads
// them but nothing travels. Half of an exchange's bytes are pushed, and with copies each round is
// pushed to both ps of a partition: then it takes half as long again.
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
  double exchange_seconds = 0;  // per batch: what neither computing nor waiting takes
};

// A way to train that a cluster has.
struct TrainingWay {
  std::string strategy;
  bool sync = false;
  size_t ps = 0;        // 0: the workers hold the variables
  bool copies = false;  // each partition has a second ps
};

struct PredictedStep {
  TrainingWay way;
  double seconds = 0;             // a worker's step, in which the cluster trains `batches`
  double batches = 0;             // all workers' in a step
  double batches_per_second = 0;  // the whole cluster's
};

// Returns what an exchange pays for, in parts of one whose gradient goes to other processes once
// and whose values come from there: less where workers hold some of the variables, and more where a
// gradient goes to both ps of a partition in each round.
double ExchangedShare(const TrainingWay& way, size_t workers);

// Returns the ways in which a cluster of this shape can train without further processes: on its ps,
// or on workers alone. Ways that differ only in TensorFlow's terms count once.
std::vector<TrainingWay> WaysOf(const ClusterShape& shape);

// Predicts a step. `runs` is the way under which `measures` were taken, and `round_batches` its
// lanes a round; nullopt: without rounds, and a round of another way has a batch for each device of
// each worker.
PredictedStep PredictStep(const StepMeasures& measures, const ClusterShape& shape,
                          const TrainingWay& runs, std::optional<uint64_t> round_batches,
                          const TrainingWay& way);

}  // namespace paracord
