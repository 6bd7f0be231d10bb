// The best evaluation, and the evaluation that ends a job.
#include "coordinator/core/early_stop.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace paracord {
namespace {

std::vector<EvaluationResult> Losses(const std::vector<double>& values) {
  std::vector<EvaluationResult> results;
  for (size_t i = 0; i < values.size(); ++i) results.push_back({i, {{"loss", values[i]}}});
  return results;
}

// Returns the number of evaluations after which the job ends; 0: it does not end.
size_t EndsAfter(const std::vector<double>& values, const StopWhen& when) {
  for (size_t n = 1; n <= values.size(); ++n) {
    const std::vector<EvaluationResult> results = Losses(values);
    if (WhyStop(std::span(results).first(n), when).has_value()) return n;
  }
  return 0;
}

// Expected values: keras.callbacks.EarlyStopping(patience, min_delta).
TEST_CASE("patience counts evaluations in a row that are not better by more than min_delta") {
  StopWhen when{.metric = "loss", .at_least = {}, .at_most = {}, .patience = 2};
  CHECK(EndsAfter({5, 4, 4, 4, 3}, when) == 4);
  CHECK(EndsAfter({5, 4, 4.5, 3, 3.5, 3.25, 1}, when) == 6);
  CHECK(EndsAfter({5, 4, 3, 2, 1}, when) == 0);
  when.patience = 0;
  CHECK(EndsAfter({5, 4, 4, 3}, when) == 3);
  when.patience = 1;
  CHECK(EndsAfter({5, 4, 4, 3}, when) == 3);
  when.min_delta = 0.5;
  CHECK(EndsAfter({5, 4.25, 3.75, 0}, when) == 3);
  CHECK(EndsAfter({5, 4.25, 3.5, 0}, when) == 0);
  // Small improvements add up, since an evaluation is compared with the best, not with the previous
  // one.
  when.patience = 2;
  CHECK(EndsAfter({5, 4.75, 4.25, 4}, when) == 0);
  when.larger_is_better = true;
  CHECK(EndsAfter({1, 2, 2.25, 2.5, 9}, when) == 4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(EndsAfter({nan, nan, 1}, when) == 2);
  CHECK(EndsAfter({1, nan, 2, nan, nan}, when) == 5);
  when.patience.reset();
  CHECK(EndsAfter({1, 1, 1, 1}, when) == 0);
  when.at_least = 3;
  CHECK(EndsAfter({1, 4}, when) == 2);
}

TEST_CASE("the best evaluation is the first of equals, and finite") {
  StopWhen when{.metric = "loss", .at_least = {}, .at_most = {}, .patience = 2};
  const auto best = [&](const std::vector<double>& values) {
    return BestEvaluation(Losses(values), when);
  };
  CHECK(best({}) == std::nullopt);
  CHECK(best({3, 2, 2, 4}) == 1u);
  CHECK(best({std::numeric_limits<double>::infinity(), 7}) == 1u);
  when.larger_is_better = true;
  CHECK(best({3, 2, 2, 4}) == 3u);
  when.min_delta = 1;
  CHECK(best({3, 2, 2, 4}) == 0u);
  when.metric = "other";
  CHECK(best({3}) == std::nullopt);
}

TEST_CASE("the reason names the metric, the epochs and the best value") {
  const StopWhen when{.metric = "loss", .at_least = {}, .at_most = 0.5, .patience = 1};
  CHECK(WhyStop(Losses({2, 2}), when) ==
        "stop_when: in 1 evaluations up to epoch 2 loss was not better than the 2 of epoch 1");
  CHECK(WhyStop(Losses({0.25}), when) == "stop_when: loss is 0.25 after epoch 1");
  CHECK(WhyStop(Losses({}), when) == std::nullopt);
}

TEST_CASE("a checkpoint holds so many batches where all trained partitions do") {
  Manifest manifest;
  manifest.variables.resize(2);
  manifest.variables[0].set_trainable(true);
  manifest.partitions.resize(3);
  manifest.partitions[2].spec.set_variable(1);  // not trained
  manifest.partitions[0].applied = 4;
  manifest.partitions[1].applied = 3;
  manifest.partitions[1].rejected = 1;
  CHECK(HoldsBatches(manifest, 4));
  CHECK_FALSE(HoldsBatches(manifest, 3));
  manifest.partitions[1].rejected = 0;
  CHECK_FALSE(HoldsBatches(manifest, 4));
}

}  // namespace
}  // namespace paracord
