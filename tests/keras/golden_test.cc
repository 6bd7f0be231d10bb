// Compares models with numbers from Keras (tests/golden/make_models.py).
#include "tests/golden/golden.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/metric.h"
#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

void CheckClose(const std::string& what, std::span<const float> ours, const json& theirs) {
  INFO(what);
  REQUIRE(ours.size() == theirs.size());
  double scale = 1e-3;  // a share of the largest value, since cancelled sums may be slightly off
  for (const json& value : theirs) scale = std::max(scale, std::abs(value.get<double>()));
  for (size_t i = 0; i < ours.size(); ++i) {
    INFO("element " << i);
    const double wanted = theirs[i].get<double>();
    CHECK(ours[i] == Approx(wanted).epsilon(1e-4).margin(2e-6 * scale));
  }
}

Job GoldenJob(const json& golden, uint32_t accumulate) {
  Job job = JobFor(golden["model"], golden["loss"], 3);
  job.accumulate = accumulate;
  if (golden["from_logits"] == true) job.loss.options["from_logits"] = true;
  for (const auto& [name, value] : golden["scores"].items()) {
    if (name != "loss") job.metrics.push_back({name});
  }
  return job;
}

void CheckCase(const json& golden, uint32_t accumulate) {
  const Batch schema = SchemaOf(golden["input_shape"], golden["target_shape"]);
  const auto built = BuildKerasProgram(GoldenJob(golden, accumulate), schema, TestOps()).value();
  GradientProgram& program = *built;
  Variables variables(program);
  variables.Set(golden["weights"]);
  for (size_t i = 0; i < variables.names.size(); ++i) {
    const bool trained = golden["gradients"].contains(variables.names[i]);
    CHECK(program.variables()[i].trainable() == trained);
  }
  Batch batch = schema;
  batch.examples = golden["examples"];
  batch.inputs[0].values = golden["inputs"].get<std::vector<float>>();
  batch.targets[0].values = golden["targets"].get<std::vector<float>>();

  const auto output = program.Predict(batch, variables.value_spans()).value();
  CheckClose("output", output[0].values, golden["output"]);
  const double loss =
      program.ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
          .value();
  CHECK(loss == Approx(golden["loss_value"].get<double>()).epsilon(1e-5));
  for (size_t i = 0; i < variables.names.size(); ++i) {
    if (variables.gradients[i].empty()) continue;
    CheckClose(variables.names[i], variables.gradients[i], golden["gradients"][variables.names[i]]);
  }
  std::vector<MetricState> states;
  CHECK(program.Evaluate(batch, variables.value_spans(), states) == absl::OkStatus());
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = program.metric_names()[i];
    INFO(name);
    CHECK(MetricValue(states[i]) == Approx(golden["scores"][name].get<double>()).epsilon(1e-5));
  }
}

// Tries a case. A failure does not prevent the next case.
void TryCase(const json& golden, uint32_t accumulate) {
  INFO(golden["name"] << ", accumulate " << accumulate);
  try {
    CheckCase(golden, accumulate);
  } catch (const absl::BadStatusOrAccess& error) {
    FAIL_CHECK(error.status());
  }
}

void CheckFile(const std::string& name) {
  const json cases = GoldenJson(name);
  REQUIRE(cases.size() > 30);
  for (const json& golden : cases) {
    TryCase(golden, 1);
    TryCase(golden, 2);
  }
}

TEST_CASE("models of Keras 3 compute what Keras computes, whole or in slices") {
  CheckFile("models.keras3.json");
}

TEST_CASE("models of Keras 2 compute what Keras 2 computes, whole or in slices") {
  CheckFile("models.keras2.json");
}

}  // namespace
}  // namespace paracord
