// Compares preprocessing layers with Keras (tests/golden/make_preprocessing.py).
#include <catch2/catch.hpp>

#include "keras/build.h"
#include "tests/golden/golden.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

Column ColumnOf(const std::string& name, const json& given) {
  Column column{.name = name, .shape = given["shape"], .values = {}};
  if (given.contains("values")) {
    column.values = given["values"].get<std::vector<float>>();
  } else {
    column.text = true;
    column.strings = given["strings"].get<std::vector<std::string>>();
  }
  return column;
}

void CheckCase(const json& golden) {
  INFO(golden["name"]);
  Batch batch;
  batch.examples = golden["examples"];
  for (const auto& [name, given] : golden["inputs"].items()) {
    batch.inputs.push_back(ColumnOf(name, given));
  }
  batch.targets.push_back({"dense", {2}, std::vector<float>(2 * batch.examples, 0.25f)});
  Batch schema;
  for (Column column : batch.inputs) {
    column.values.clear();
    column.strings.clear();
    schema.inputs.push_back(std::move(column));
  }
  schema.targets.push_back({"dense", {2}, {}});
  Job job = JobFor(golden["model"], "mean_squared_error", batch.examples);
  job.loss.output = "dense";
  auto built = BuildKerasProgram(job, schema, TestOps());
  INFO(built.status());
  REQUIRE(built.ok());
  GradientProgram& program = **built;
  Variables variables(program);
  variables.Set(golden["weights"]);
  for (int run = 0; run < 2; ++run) {  // the second run reuses storage
    const auto outputs = program.Predict(batch, variables.value_spans());
    INFO(outputs.status());
    REQUIRE(outputs.ok());
    REQUIRE(outputs->size() == golden["outputs"].size());
    for (size_t o = 0; o < outputs->size(); ++o) {
      const json& theirs = golden["outputs"][o];
      INFO("output " << o << " " << (*outputs)[o].name);
      REQUIRE((*outputs)[o].values.size() == theirs.size());
      for (size_t i = 0; i < theirs.size(); ++i) {
        CHECK((*outputs)[o].values[i] ==
              Approx(theirs[i].get<double>()).epsilon(1e-4).margin(2e-6));
      }
    }
  }
  const auto loss =
      program.ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
  REQUIRE(loss.ok());
  CHECK(*loss > 0);
  std::vector<MetricState> states;
  CHECK(program.Evaluate(batch, variables.value_spans(), states).ok());
}

void CheckPreprocessing(const std::string& name) {
  const json cases = GoldenJson(name);
  REQUIRE(cases.size() >= 14);
  for (const json& golden : cases) CheckCase(golden);
}

TEST_CASE("preprocessing layers of Keras 3 give what Keras gives") {
  CheckPreprocessing("preprocessing.keras3.json");
}

TEST_CASE("preprocessing layers of Keras 2 give what Keras 2 gives") {
  CheckPreprocessing("preprocessing.keras2.json");
}

}  // namespace
}  // namespace paracord
