// Tests metrics in edge cases: equal outputs, zeros, and outputs at a threshold. Expected numbers
// are from Keras 3.15.
#include "keras/metrics.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/metric.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

double Measure(const nlohmann::json& options, const std::string& name, int64_t columns,
               const Floats& outputs, const Floats& targets) {
  NamedSpec spec;
  spec.name = name;
  spec.options = options;
  const auto metric = ResolveMetric(spec, {columns}, {columns});
  INFO(metric.status());
  REQUIRE(metric.ok());
  MetricState state;
  // The examples come in two batches, as from two workers.
  const auto half = static_cast<size_t>(columns);
  AddToMetric(*metric, 1, outputs.data(), targets.data(), {}, state);
  AddToMetric(*metric, static_cast<int64_t>(outputs.size()) / columns - 1, outputs.data() + half,
              targets.data() + half, {}, state);
  return MetricValue(state);
}

TEST_CASE("a metric that would give a score for each column is refused, not averaged") {
  NamedSpec spec;
  spec.name = "r2_score";
  spec.options = {{"class_aggregation", nullptr}};
  const auto metric = ResolveMetric(spec, {2}, {2});
  REQUIRE_FALSE(metric.ok());
  CHECK(metric.status().message().find("class_aggregation") != std::string::npos);
}

TEST_CASE("F1 without a threshold takes all that are largest in their row, but no zeros") {
  const Floats outputs = {.5f, .5f, .1f, 0, 0, 0, .2f, .7f, .7f, -1, -2, -3};
  const Floats targets = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0};
  const auto f1 = [&](const char* average) {
    return Measure({{"average", average}}, "f1_score", 3, outputs, targets);
  };
  CHECK(f1("macro") == Approx(0.666666567));
  CHECK(f1("micro") == Approx(0.666666627));
  CHECK(f1("weighted") == Approx(0.74999994));
  CHECK(Measure({{"average", "micro"}}, "f1_score", 1, {.2f, .9f, 0, .4f}, {1, 0, 1, 1}) ==
        Approx(0.666666627));
}

TEST_CASE("each count of a confusion is a metric") {
  const Floats outputs = {.3f, .6f, .7f, .2f, .8f, .9f}, targets = {1, 1, 0, 1, 1, 1};
  const auto count = [&](const std::string& name, double threshold) {
    return Measure({{"thresholds", threshold}}, name, 2, outputs, targets);
  };
  for (const auto& [threshold, all] : {std::pair(0.5, std::array{3.0, 1.0, 2.0, 0.0}),
                                       std::pair(0.75, std::array{2.0, 0.0, 3.0, 1.0})}) {
    CHECK(count("true_positives", threshold) == all[0]);
    CHECK(count("false_positives", threshold) == all[1]);
    CHECK(count("false_negatives", threshold) == all[2]);
    CHECK(count("true_negatives", threshold) == all[3]);
  }
}

TEST_CASE("a metric of examples that all weigh 0 is 0, as in Keras, and no NaN") {
  for (const char* name :
       {"categorical_accuracy", "binary_accuracy", "top_k_categorical_accuracy", "precision",
        "recall", "auc", "f1_score", "cosine_similarity", "mean_squared_error",
        "root_mean_squared_error", "categorical_crossentropy"}) {
    INFO(name);
    NamedSpec spec;
    spec.name = name;
    if (spec.name == "f1_score") spec.options = {{"average", "macro"}};
    const auto metric = ResolveMetric(spec, {2}, {2});
    REQUIRE(metric.ok());
    const Floats outputs = {.7f, .3f, .2f, .8f}, targets = {1, 0, 0, 1}, weights = {0, 0};
    MetricState state;
    AddToMetric(*metric, 2, outputs.data(), targets.data(), weights, state);
    CHECK(MetricValue(state) == 0);
  }
  CHECK(std::isnan(MetricValue(MetricState())));  // no measurements
}

TEST_CASE("a prediction at a threshold is not above it, in float32") {
  const Floats outputs = {.3f, .31f, .7f, .2f}, targets = {1, 1, 0, 1};
  CHECK(Measure({{"thresholds", .3}}, "precision", 1, outputs, targets) == Approx(0.5));
  CHECK(Measure({{"thresholds", .3}}, "recall", 1, outputs, targets) == Approx(0.333333343));
  CHECK(Measure({{"average", "micro"}, {"threshold", .3}}, "f1_score", 1, outputs, targets) ==
        Approx(0.399999946));
  CHECK(Measure({{"threshold", .3}}, "binary_accuracy", 1, outputs, targets) == Approx(0.25));
}

TEST_CASE("a prediction that is no number is below every threshold of a curve") {
  const auto auc = [](float first) {
    return Measure(nlohmann::json::object(), "auc", 1, {first, .9f, .4f, .6f}, {1, 1, 0, 0});
  };
  CHECK(auc(NAN) == auc(0));
}

TEST_CASE("a class that is none of the model's, as ignore_class has, is never among the top k") {
  NamedSpec spec;
  spec.name = "sparse_top_k_categorical_accuracy";
  spec.options = {{"k", 3}};
  const auto metric = ResolveMetric(spec, {3}, {});
  REQUIRE(metric.ok());
  for (const float none : {-1.f, 3.f, 255.f, -16'000'000.f, 16'000'000.f}) {
    CAPTURE(none);
    const Floats outputs = {.1f, .2f, .7f, .1f, .2f, .7f}, targets = {0, none};
    MetricState state;
    AddToMetric(*metric, 2, outputs.data(), targets.data(), {}, state);
    CHECK(MetricValue(state) == Approx(0.5));
  }
}

TEST_CASE("AUC by label is the mean of the labels' areas, with their weights, as Keras has it") {
  const Floats targets = {0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0};
  const Floats outputs = {.1f, .8f, .7f, .6f, .4f,  .2f, .7f, .1f,
                          .9f, .8f, .3f, .4f, .35f, .5f, .6f};
  const auto auc = [&](const nlohmann::json& options) {
    return Measure(options, "auc", 3, outputs, targets);
  };
  CHECK(auc(nlohmann::json::object()) == Approx(0.6339286));
  CHECK(auc({{"multi_label", true}}) == Approx(0.6111111));
  CHECK(auc({{"multi_label", true}, {"num_labels", 3}, {"curve", "PR"}}) == Approx(0.7155178));
  CHECK(auc({{"multi_label", true}, {"label_weights", {1, 2, 5}}}) == Approx(0.5625));
  CHECK(auc({{"label_weights", {1, 2, 5}}}) == Approx(0.5690538));
  Floats logits;
  for (const float output : outputs) logits.push_back(output * 4 - 2);
  CHECK(Measure({{"multi_label", true}, {"from_logits", true}, {"label_weights", {0, 0, 1}}}, "auc",
                3, logits, targets) == Approx(0.5));

  NamedSpec spec{"auc", {{"multi_label", true}}};
  const MetricSpec metric = ResolveMetric(spec, {3}, {3}).value();
  MetricState state;
  AddToMetric(metric, 5, outputs.data(), targets.data(), std::array{1.f, 2.f, 1.f, .5f, 3.f},
              state);
  CHECK(MetricValue(state) == Approx(0.5336701));
}

// Expected numbers are from NumPy with the formulas of keras/src/metrics/confusion_metrics.py.
TEST_CASE("AUC at thresholds of the job's own is that of Keras, in whatever order they come") {
  const Floats targets = {0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0};
  const Floats outputs = {.1f, .8f, .7f, .6f, .4f,  .2f, .7f, .1f,
                          .9f, .8f, .3f, .4f, .35f, .5f, .6f};
  const auto auc = [&](const nlohmann::json& thresholds, const char* curve) {
    return Measure({{"thresholds", thresholds}, {"curve", curve}, {"num_thresholds", 7}}, "auc", 3,
                   outputs, targets);
  };
  CHECK(auc({.5}, "ROC") == Approx(0.59821429));
  CHECK(auc({.65, .15, .33}, "ROC") == Approx(0.58928571));
  CHECK(auc({.65, .15, .33}, "PR") == Approx(0.54496681));
  CHECK(auc(nlohmann::json::array(), "ROC") == Approx(0.5));
  CHECK(auc({0, 1}, "PR") == Approx(0.46666667));
  nlohmann::json even = nlohmann::json::array();
  for (int i = 1; i < 199; ++i) even.push_back(i / 199.0);
  CHECK(auc(even, "ROC") == Approx(Measure(nlohmann::json::object(), "auc", 3, outputs, targets)));
  const auto refused = [](const nlohmann::json& thresholds) {
    const NamedSpec spec{"auc", {{"thresholds", thresholds}}};
    return std::string(ResolveMetric(spec, {3}, {3}).status().message());
  };
  CHECK(refused({0.5, 1.5}) == "metric auc.thresholds: must be at most 10000 numbers from 0 to 1");
  CHECK(refused({-0.1}).starts_with("metric auc.thresholds: "));
}

TEST_CASE("precision and recall are of the k largest classes, or of one class, as Keras says") {
  const Floats outputs = {.1f, .7f, .7f, .2f, .9f, .3f, .2f, .9f,
                          .4f, .6f, .1f, .5f, .8f, .1f, .6f, .55f},
               targets = {0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0, 1};
  struct Case {
    nlohmann::json options;
    double precision, recall;
  };
  for (const auto& [options, precision, recall] :
       std::vector<Case>{{nlohmann::json::object(), .625, .625},
                         {{{"top_k", 2}}, .5, .5},
                         {{{"top_k", 1}}, .75, .375},
                         {{{"class_id", 1}}, 1, 2. / 3},
                         {{{"class_id", 3}, {"top_k", 2}}, .5, 1. / 3},
                         {{{"top_k", 2}, {"thresholds", .65}}, .6, .375},
                         {{{"class_id", 0}, {"thresholds", .3}}, 2. / 3, 1}}) {
    CAPTURE(options);
    CHECK(Measure(options, "precision", 4, outputs, targets) == Approx(precision));
    CHECK(Measure(options, "recall", 4, outputs, targets) == Approx(recall));
  }
  const NamedSpec spec{"precision", {{"class_id", 4}}};
  CHECK(ResolveMetric(spec, {4}, {4}).status().message() ==
        "metric precision.class_id: must be an integer from 0 to 3, is 4");
}

TEST_CASE("an option of AUC that does not work by label is refused by name") {
  const auto refused = [](const nlohmann::json& options, const Shape& shape) {
    return std::string(ResolveMetric({"auc", options}, shape, shape).status().message());
  };
  CHECK(refused({{"multi_label", true}, {"num_labels", 2}}, {3}) ==
        "metric auc.num_labels: is 2, but the output has 3");
  CHECK(refused({{"label_weights", {1, 2}}}, {3}) ==
        "metric auc.label_weights: has 2 numbers, but the output has 3 labels");
  CHECK(refused({{"label_weights", {1, "a", 2}}}, {3}) ==
        "metric auc.label_weights: must be a list of numbers, is [1,\"a\",2]");
  CHECK(refused({{"multi_label", true}}, {4, 3}) ==
        "metric auc.multi_label: is for outputs of one axis");
  CHECK(refused({{"multi_label", true}}, {int64_t{1} << 60}) ==
        "metric auc.num_thresholds: times the labels must be at most 10000000");
  CHECK(refused({{"multi_label", true}, {"num_labels", -5}}, {-5}) ==
        "metric auc.num_labels: must be a number from 1, is -5");
}

}  // namespace
}  // namespace paracord
