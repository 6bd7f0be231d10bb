// Predicts the cost of a batch under one strategy from measurements under another.
#include "config/step_cost.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace paracord {
namespace {

constexpr StepMeasures kMeasures{.compute_seconds = 0.010, .exchange_seconds = 0.004};
const TrainingWay kAsync{"parameter_server", false, 2};
const TrainingWay kSync{"parameter_server", true, 2};
const TrainingWay kNodes{"multi_worker_mirrored", true, 0};

TEST_CASE("what runs is predicted as it was measured") {
  const ClusterShape shape{.ps = 2, .workers = 4};
  const PredictedStep async = PredictStep(kMeasures, shape, kAsync, std::nullopt, kAsync);
  CHECK(async.seconds == Approx(0.014));
  CHECK(async.batches_per_second == Approx(4 / 0.014));
  const PredictedStep sync = PredictStep(kMeasures, shape, kSync, 4, kSync);
  CHECK(sync.batches_per_second == Approx(4 / 0.014));
  const PredictedStep twice = PredictStep(kMeasures, shape, kSync, 8, kSync);
  CHECK(twice.seconds == Approx(0.028));  // each worker has two lanes
  CHECK(twice.batches_per_second == Approx(8 / 0.028));
}

TEST_CASE("workers that hold shares send less, the more of the shares are their own") {
  CHECK(ExchangedShare(kAsync, 1) == 1);
  CHECK(ExchangedShare(kNodes, 2) == Approx(0.75));
  CHECK(ExchangedShare(kNodes, 4) == Approx(0.875));
  CHECK(ExchangedShare({"one_device", false, 0}, 1) == Approx(0.5));
  const ClusterShape shape{.ps = 2, .workers = 2};
  const PredictedStep nodes = PredictStep(kMeasures, shape, kAsync, std::nullopt, kNodes);
  CHECK(nodes.seconds == Approx(0.010 + 0.75 * 0.004));
  CHECK(nodes.batches == 2);
  // The reverse: predicts ps from measurements of two nodes.
  const StepMeasures of_nodes{.compute_seconds = 0.010, .exchange_seconds = 0.003};
  CHECK(PredictStep(of_nodes, shape, kNodes, 2, kAsync).seconds == Approx(0.014));
}

TEST_CASE("a round that is pushed to both ps of each partition exchanges half as much again") {
  const TrainingWay copied_sync{"parameter_server", true, 2, /*copies=*/true};
  const TrainingWay copied_async{"parameter_server", false, 2, /*copies=*/true};
  CHECK(ExchangedShare(copied_sync, 2) == Approx(1.5));
  CHECK(ExchangedShare(copied_async, 2) == 1);  // a second ps reads checkpoints
  const ClusterShape shape{.ps = 2, .workers = 2};
  CHECK(PredictStep(kMeasures, shape, copied_sync, 2, copied_sync).seconds == Approx(0.014));
  CHECK(PredictStep(kMeasures, shape, copied_async, std::nullopt, copied_sync).seconds ==
        Approx(0.010 + 1.5 * 0.004));
  CHECK(PredictStep(kMeasures, shape, copied_sync, 2, copied_async).seconds ==
        Approx(0.010 + 0.004 / 1.5));
  CHECK(PredictStep(kMeasures, shape, copied_sync, 2, kNodes).seconds ==
        Approx(0.010 + 0.75 / 1.5 * 0.004));
}

TEST_CASE("a round lasts until the worker with the most lanes has computed them") {
  const ClusterShape shape{.ps = 2, .workers = 2};
  const PredictedStep odd = PredictStep(kMeasures, shape, kSync, 3, kSync);
  CHECK(odd.seconds == Approx(0.028));
  CHECK(odd.batches == 3);
}

TEST_CASE("the devices of a worker compute side by side and exchange once") {
  const ClusterShape shape{.workers = 1, .devices = 4};
  const TrainingWay mirrored{"mirrored", true, 0};
  const StepMeasures measures{.compute_seconds = 0.010, .exchange_seconds = 0.001};
  const PredictedStep step = PredictStep(measures, shape, mirrored, 4, mirrored);
  CHECK(step.seconds == Approx(0.014));  // 4 batches in 10 ms, and 1 ms each remains
  CHECK(step.batches_per_second == Approx(4 / 0.014));
}

TEST_CASE("a cluster trains on the ps that it has or without them, and starts no other process") {
  const auto names = [](const ClusterShape& shape) {
    std::vector<std::string> all;
    for (const TrainingWay& way : WaysOf(shape)) {
      all.push_back(way.strategy + (way.sync ? " sync" : " async"));
    }
    return all;
  };
  using Names = std::vector<std::string>;
  CHECK(names({.ps = 2, .workers = 2}) ==
        Names{"parameter_server async", "parameter_server sync", "multi_worker_mirrored sync"});
  CHECK(names({.ps = 1, .workers = 1}) ==
        Names{"parameter_server async", "parameter_server sync", "one_device async"});
  CHECK(names({.workers = 2}) == Names{"parameter_server async", "multi_worker_mirrored sync"});
  CHECK(names({.workers = 1}) == Names{"one_device async"});
  CHECK(names({.workers = 1, .devices = 2}) == Names{"mirrored sync"});
  CHECK(names({.workers = 2, .devices = 2}) == Names{"multi_worker_mirrored sync"});
}

TEST_CASE("nothing measured predicts no rate") {
  CHECK(PredictStep({}, {.ps = 1, .workers = 1}, kAsync, std::nullopt, kAsync).batches_per_second ==
        0);
}

}  // namespace
}  // namespace paracord
