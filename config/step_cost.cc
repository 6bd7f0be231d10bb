#include "config/step_cost.h"

#include <algorithm>

namespace paracord {
namespace {

constexpr double kOwnShare = 0.5;  // cost of a byte that stays in its process, relative to others

constexpr double kPushedShare = 0.5;  // part of an exchange's bytes that is pushed

uint64_t CeilOf(uint64_t number, uint64_t parts) { return (number + parts - 1) / parts; }

}  // namespace

double ExchangedShare(const TrainingWay& way, size_t workers) {
  if (way.ps > 0) return way.sync && way.copies ? 1 + kPushedShare : 1;
  const double own = 1 / static_cast<double>(std::max<size_t>(workers, 1));
  return 1 - own + kOwnShare * own;
}

std::vector<TrainingWay> WaysOf(const ClusterShape& shape) {
  std::vector<TrainingWay> ways;
  // An asynchronous job has one device in each worker.
  const bool alone = shape.workers == 1, one = shape.devices == 1;
  if (shape.ps > 0) {
    if (one) ways.push_back({"parameter_server", /*sync=*/false, shape.ps});
    ways.push_back({"parameter_server", /*sync=*/true, shape.ps});
  } else if (one && !alone) {
    ways.push_back({"parameter_server", /*sync=*/false, /*ps=*/0});
  }
  if (!alone) ways.push_back({"multi_worker_mirrored", /*sync=*/true, /*ps=*/0});
  if (alone && one) ways.push_back({"one_device", /*sync=*/false, /*ps=*/0});
  if (alone && !one) ways.push_back({"mirrored", /*sync=*/true, /*ps=*/0});
  return ways;
}

PredictedStep PredictStep(const StepMeasures& measures, const ClusterShape& shape,
                          const TrainingWay& runs, std::optional<uint64_t> round_batches,
                          const TrainingWay& way) {
  const uint64_t workers = std::max<uint64_t>(shape.workers, 1);
  const uint64_t devices = std::max<uint64_t>(shape.devices, 1);
  const uint64_t lanes = round_batches.value_or(workers * devices);
  const uint64_t of_worker = CeilOf(lanes, workers);
  // The devices of a worker push together, so an exchange there is of several batches.
  const uint64_t pushed = runs.sync ? std::min(devices, of_worker) : 1;
  const double exchange = measures.exchange_seconds * static_cast<double>(pushed) *
                          ExchangedShare(way, workers) / ExchangedShare(runs, workers);
  const uint64_t waves = way.sync ? CeilOf(of_worker, devices) : 1;
  PredictedStep step{.way = way};
  step.seconds = static_cast<double>(waves) * (measures.compute_seconds + exchange);
  step.batches = static_cast<double>(way.sync ? lanes : workers);
  if (step.seconds > 0) step.batches_per_second = step.batches / step.seconds;
  return step;
}

}  // namespace paracord
