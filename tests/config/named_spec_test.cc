// Tests Keras' spellings of losses, metrics and optimizers, and compile_config.
#include "config/named_spec.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"

namespace paracord {
namespace {

using nlohmann::json;

NamedSpec Read(NamedKind kind, const char* text) {
  Problems problems;
  const std::optional<NamedSpec> spec = ReadNamedSpec(kind, JsonOf(text), "key", problems);
  INFO(problems.ToStatus().ToString());
  REQUIRE(problems.empty());
  REQUIRE(spec);
  return *spec;
}

TEST_CASE("class names, aliases and snake case all give Keras' snake_case name") {
  const std::pair<const char*, const char*> names[] = {
      {"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy"},
      {"sparse_categorical_crossentropy", "sparse_categorical_crossentropy"},
      {"MeanSquaredError", "mean_squared_error"},
      {"mse", "mean_squared_error"},
      {"MSE", "mean_squared_error"},
      {"KLDivergence", "kl_divergence"},
      {"kullback_leibler_divergence", "kl_divergence"},
      {"LogCosh", "log_cosh"},
      {"LogCoshError", "log_cosh"},
      {"logcosh", "log_cosh"},
      {"Huber", "huber"},
      {"TopKCategoricalAccuracy", "top_k_categorical_accuracy"},
      {"AUC", "auc"},
      {"R2Score", "r2_score"},
      {"acc", "accuracy"},
      {"made_up", "made_up"},
  };
  for (const auto& [written, name] : names) CHECK(KerasName(NamedKind::kMetric, written) == name);
  const std::pair<const char*, const char*> optimizers[] = {
      {"SGD", "sgd"}, {"RMSprop", "rmsprop"}, {"AdamW", "adamw"}, {"Adam", "adam"}};
  for (const auto& [written, name] : optimizers) {
    CHECK(KerasName(NamedKind::kOptimizer, written) == name);
  }
  CHECK(KerasName(NamedKind::kSchedule, "PiecewiseConstantDecay") == "piecewise_constant_decay");
}

TEST_CASE("the three forms of an optimizer give the same") {
  CHECK(Read(NamedKind::kOptimizer, R"("adam")").options.empty());
  const NamedSpec plain =
      Read(NamedKind::kOptimizer, R"({"name": "Adam", "learning_rate": 0.5, "clipnorm": null})");
  const NamedSpec keras = Read(NamedKind::kOptimizer, R"({
      "module": "keras.optimizers", "class_name": "Adam", "registered_name": null,
      "config": {"name": "my_adam", "learning_rate": 0.5, "weight_decay": null, "clipnorm": null,
                 "use_ema": false, "ema_momentum": 0.99, "ema_overwrite_frequency": null,
                 "loss_scale_factor": null, "gradient_accumulation_steps": null}})");
  CHECK(plain.name == "adam");
  CHECK(plain.options == json{{"learning_rate", 0.5}});
  CHECK(keras.name == plain.name);
  CHECK(keras.options == plain.options);
}

TEST_CASE("options that are switched on are kept, so that the optimizer can refuse them") {
  const NamedSpec spec = Read(NamedKind::kOptimizer, R"({"class_name": "SGD", "config":
      {"use_ema": true, "ema_momentum": 0.9, "clipvalue": 1.0}})");
  CHECK(spec.options == json{{"use_ema", true}, {"ema_momentum", 0.9}, {"clipvalue", 1.0}});
}

TEST_CASE(
    "the options that mark Keras 2 are kept where its averages differ from those of Keras 3") {
  const NamedSpec plain = Read(NamedKind::kOptimizer,
                               R"({"class_name": "Adam", "config": {"jit_compile": true,
                                   "is_legacy_optimizer": false, "use_ema": false}})");
  CHECK(plain.options.empty());
  const NamedSpec average = Read(NamedKind::kOptimizer,
                                 R"({"class_name": "Adam", "config": {"jit_compile": true,
                                     "is_legacy_optimizer": false, "use_ema": true}})");
  CHECK(average.options.contains("jit_compile"));
  CHECK(average.options.contains("is_legacy_optimizer"));
  const NamedSpec legacy = Read(NamedKind::kOptimizer,
                                R"({"class_name": "RMSprop", "config": {"decay": 0.0,
                                    "is_legacy_optimizer": true}})");
  CHECK(legacy.options.at("is_legacy_optimizer") == true);
  CHECK(legacy.options.at("decay") == 0.0);
}

TEST_CASE("of a LossScaleOptimizer only the inner optimizer counts") {
  const NamedSpec scaled = Read(NamedKind::kOptimizer,
                                R"({"class_name": "LossScaleOptimizer", "config": {
                                    "inner_optimizer": {"class_name": "Adam", "config": {
                                        "learning_rate": 0.5, "loss_scale_factor": null}},
                                    "initial_scale": 32768.0, "dynamic_growth_steps": 2000}})");
  CHECK(scaled.name == "adam");
  CHECK(scaled.options == json{{"learning_rate", 0.5}});
  // Without an inner optimizer the name stays, and is refused where optimizers are made.
  CHECK(Read(NamedKind::kOptimizer, R"({"class_name": "LossScaleOptimizer", "config": {}})").name ==
        "lossscaleoptimizer");
}

TEST_CASE("a schedule takes the form of the job in either spelling") {
  const json expected = {{"name", "exponential_decay"},
                         {"decay_rate", 0.5},
                         {"decay_steps", 2},
                         {"initial_learning_rate", 0.01},
                         {"staircase", false}};
  const NamedSpec keras = Read(NamedKind::kOptimizer, R"({"class_name": "SGD", "config": {
      "learning_rate": {"module": "keras.optimizers.schedules", "class_name": "ExponentialDecay",
        "config": {"initial_learning_rate": 0.01, "decay_steps": 2, "decay_rate": 0.5,
                   "staircase": false, "name": "ExponentialDecay"}, "registered_name": null}}})");
  CHECK(keras.options["learning_rate"] == expected);
  const NamedSpec plain = Read(NamedKind::kOptimizer, R"({"name": "sgd", "learning_rate": {
      "name": "ExponentialDecay", "initial_learning_rate": 0.01, "decay_steps": 2,
      "decay_rate": 0.5, "staircase": false}})");
  CHECK(plain.options["learning_rate"] == expected);
}

TEST_CASE("a loss that was a function is known by the function's name") {
  CHECK(Read(NamedKind::kLoss, R"({"module": "builtins", "class_name": "function",
                                   "config": "mse", "registered_name": "mse"})")
            .name == "mean_squared_error");
}

CompileConfig Compiled(const char* text, std::string* problems = nullptr) {
  Problems found;
  CompileConfig config = ReadCompileConfig({{"compile_config", JsonOf(text)}}, found);
  if (problems != nullptr) {
    *problems = absl::StrJoin(found.lines(), "\n");
  } else {
    INFO(absl::StrJoin(found.lines(), "\n"));
    CHECK(found.empty());
  }
  return config;
}

TEST_CASE("compile_config gives optimizer, loss and metrics as each version of Keras writes them") {
  const CompileConfig config = Compiled(R"({
      "optimizer": {"module": "keras.optimizers", "class_name": "SGD",
                    "config": {"name": "sgd", "learning_rate": 0.01}},
      "loss": {"module": "keras.losses", "class_name": "BinaryCrossentropy",
               "config": {"name": "binary_crossentropy", "from_logits": true, "axis": -1}},
      "loss_weights": null, "metrics": ["accuracy", {"class_name": "AUC", "config": {}}],
      "weighted_metrics": null, "run_eagerly": false, "steps_per_execution": 1,
      "jit_compile": true})");
  CHECK(config.optimizer->name == "sgd");
  REQUIRE(config.losses.size() == 1);
  CHECK(config.losses[0].name == "binary_crossentropy");
  CHECK(config.losses[0].options == json{{"from_logits", true}, {"axis", -1}});
  REQUIRE(config.metrics->size() == 2);
  CHECK((*config.metrics)[1].name == "auc");

  CHECK(Compiled(R"({"loss": ["mse"]})").losses[0].name == "mean_squared_error");
  CHECK(Compiled(R"({"loss": {"out": "mae"}})").losses[0].name == "mean_absolute_error");
  CHECK(Compiled(R"({"metrics": {"out": ["acc"]}})").metrics->size() == 1);
  CHECK(Compiled(R"({"metrics": [["acc", "mse"]]})").metrics->size() == 2);
  CHECK(!Compiled(R"({"metrics": null, "loss": null})").metrics);
}

TEST_CASE("compile_config gives losses, weights and metrics by output") {
  const CompileConfig named = Compiled(R"({
      "loss": {"a": "mse", "b": {"class_name": "Huber", "config": {"name": "huber"}}, "c": null},
      "loss_weights": {"a": 1.0, "b": 0.5}, "metrics": {"b": ["mae", "mse"]}})");
  REQUIRE(named.losses.size() == 2);
  CHECK(named.losses[0].output == "a");
  CHECK(named.losses[1].name == "huber");
  CHECK(named.losses[1].output == "b");
  CHECK(named.loss_weights == std::map<std::string, double>{{"a", 1}, {"b", 0.5}});
  REQUIRE(named.metrics->size() == 2);
  CHECK((*named.metrics)[1].output == "b");

  const CompileConfig placed = Compiled(R"({"loss": ["mse", null, "mae"],
      "loss_weights": [1, null, 2], "metrics": [["acc"], [], ["mae"]],
      "weighted_metrics": [{"class_name": "AUC", "config": {"name": "area"}}]})");
  REQUIRE(placed.losses.size() == 2);
  CHECK(placed.losses[1].output == "#2");
  CHECK(placed.loss_weights == std::map<std::string, double>{{"#0", 1}, {"#2", 2}});
  REQUIRE(placed.metrics->size() == 3);
  CHECK((*placed.metrics)[1].output == "#2");
  CHECK((*placed.metrics)[2].weighted);
  CHECK((*placed.metrics)[2].options["label"] == "area");
}

TEST_CASE("a list of metrics with null entries is by output, and a user's own class is no metric") {
  const CompileConfig config = Compiled(R"({"metrics": [null, "mae"], "optimizer": "sgd"})");
  REQUIRE(config.metrics->size() == 1);
  CHECK((*config.metrics)[0].output == "#1");
  CHECK(Compiled(R"({"optimizer": {"module": "__main__", "class_name": "Adam", "config": {},
      "registered_name": "pkg>Adam"}})")
            .optimizer->name == "pkg>adam");
  CHECK(Compiled(R"({"metrics": [{"class_name": "R2Score",
      "config": {"class_aggregation": null}}]})")
            .metrics->at(0)
            .options.contains("class_aggregation"));
}

TEST_CASE("a model that was not compiled sets nothing") {
  for (const char* text : {"{}", "null"}) {
    const CompileConfig config = Compiled(text);
    CHECK((!config.optimizer && config.losses.empty() && !config.metrics));
  }
  Problems problems;
  CHECK(ReadCompileConfig(json::object(), problems).losses.empty());
  CHECK(ReadCompileConfig(json(), problems).losses.empty());
}

TEST_CASE("a part of compile_config that cannot be used is named") {
  std::string problems;
  Compiled(R"({"loss": ["mse", 4], "loss_weights": ["a", 2], "metrics": [3],
               "optimizer": {"class_name": 1}})",
           &problems);
  for (const char* expected : {"model.compile_config.loss[1]: must be a name",
                               "model.compile_config.loss_weights.0: must be a number",
                               "model.compile_config.metrics[0]: must be a name",
                               "model.compile_config.optimizer.class_name: must be a string"}) {
    INFO(problems);
    CHECK(absl::StrContains(problems, expected));
  }
}

}  // namespace
}  // namespace paracord
