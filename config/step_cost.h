// Predicts the cost of a batch under each strategy that a cluster can run, from measurements under
// the present strategy. Pure.
//
//   a step of a worker = waves x (compute + exchange)
//
// `waves`: how often a device of the worker computes for an update: once in a job without rounds;
// in a round of R lanes, as often as the worker's devices need for the worker's share of the lanes.
// `compute`: the time of a batch on one device, multiply-adds x examples / speed. `exchange`: the
// time from the gradient to the next values that computing does not hide: bytes / bandwidth, trips
// x latency, and the update by the ps. `exchange` is measured as a whole and scales with the bytes.
// Bytes that leave a worker's process count in full. Bytes for variables that the worker itself
// holds count half: they are applied and read, but do not travel. Half of the bytes of an exchange
// are pushed. With copies, gradients of a round are pushed to both ps of a partition: the exchange
// takes half as long again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/strategy.h"

namespace paracord {

// Means over the measured batches.
struct StepMeasures {
  double compute_seconds = 0;   // of one batch on one device
  double exchange_seconds = 0;  // of one batch: neither computing nor waiting
};

// A way in which a cluster can train.
struct TrainingWay {
  std::string strategy;
  bool sync = false;
  size_t ps = 0;        // 0: the workers hold the variables
  bool copies = false;  // each partition has a second ps
};

struct PredictedStep {
  TrainingWay way;
  double seconds = 0;  // time of a step, in which all workers train `batches` batches
  double batches = 0;
  double batches_per_second = 0;
};

// Returns the cost of an exchange relative to one in which a gradient goes once from a worker to
// the ps and values come from the ps. Less than 1 if workers hold the variables; more than 1 if the
// gradients of a round go to both ps of a partition.
double ExchangedShare(const TrainingWay& way, size_t workers);

// Returns the ways in which a cluster of this shape can train without further processes: with its
// ps, or with its workers alone. If strategies differ only by name (TensorFlow has several),
// returns one of them.
std::vector<TrainingWay> WaysOf(const ClusterShape& shape);

// Predicts a step of `way`. `measures` are from training in the way `runs`. `round_batches` is the
// number of lanes in a round; nullopt: one lane for each device of each worker.
PredictedStep PredictStep(const StepMeasures& measures, const ClusterShape& shape,
                          const TrainingWay& runs, std::optional<uint64_t> round_batches,
                          const TrainingWay& way);

}  // namespace paracord
