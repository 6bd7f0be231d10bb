// Compares compiled models with numbers from Keras (tests/golden/make_graphs.py).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "common/json_text.h"
#include "common/metric.h"
#include "keras/build.h"
#include "tests/golden/golden.h"
#include "tests/keras/golden_job.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// Allows 1e-4 relative, and 2e-6 of the largest value if terms cancel. A golden file of a mixed
// policy has its own tolerance, a share of the largest value, because roundings differ within a
// layer.
void CheckClose(const std::string& what, std::span<const float> ours, const json& theirs,
                double tolerance) {
  INFO(what);
  REQUIRE(ours.size() == theirs.size());
  if (tolerance > 0) {
    double largest = 0;
    for (const json& value : theirs) largest = std::max(largest, std::abs(value.get<double>()));
    for (size_t i = 0; i < ours.size(); ++i) {
      INFO("element " << i);
      CHECK(static_cast<double>(ours[i]) ==
            Approx(theirs[i].get<double>()).epsilon(0).margin(tolerance * largest));
    }
    return;
  }
  // CPUs with shorter vectors add in another order. Differences are largest if terms cancel.
  double scale = 1;
  for (const json& value : theirs) scale = std::max(scale, std::abs(value.get<double>()));
  for (size_t i = 0; i < ours.size(); ++i) {
    INFO("element " << i);
    CHECK(static_cast<double>(ours[i]) ==
          Approx(theirs[i].get<double>()).epsilon(1e-4).margin(4e-6 * scale));
  }
}

// Applies a constraint as the parameter servers do after an update (proto: NormConstraint).
void Constrain(const VariableSpec& variable, std::vector<float>& values) {
  const NormConstraint& norm = variable.norm();
  const auto group = [&](size_t element) {  // indices of the element along the other axes
    std::vector<uint64_t> others;
    for (int axis = variable.shape_size(); axis-- > 0;) {
      const uint64_t size = variable.shape(axis), at = element % size;
      element /= size;
      const bool summed =
          std::find(norm.axes().begin(), norm.axes().end(), axis) != norm.axes().end();
      if (!summed) others.push_back(at);
    }
    return others;
  };
  std::map<std::vector<uint64_t>, double> squares;
  for (size_t i = 0; i < values.size(); ++i) {
    squares[group(i)] += std::pow(static_cast<double>(values[i]), 2);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double length = std::sqrt(squares[group(i)]);
    const double wanted =
        norm.rate() * std::clamp(length, norm.least(), norm.most()) + (1 - norm.rate()) * length;
    values[i] *= static_cast<float>(wanted / (length + 1e-7));
  }
}

// Applies plain SGD and moving averages as the parameter servers do.
void Step(const GradientProgram& program, float rate, Variables& variables) {
  for (size_t v = 0; v < variables.values.size(); ++v) {
    const bool moving = program.variables()[v].moving_average() > 0;
    const auto keep = static_cast<float>(program.variables()[v].moving_average());
    for (size_t i = 0; i < variables.gradients[v].size(); ++i) {
      float& value = variables.values[v][i];
      const float given = variables.gradients[v][i];
      value = moving ? value * keep + given * (1 - keep) : value - rate * given;
      if (program.variables()[v].constraint() == "non_neg") value = std::max(value, 0.f);
    }
    if (program.variables()[v].constraint() == "norm") {
      Constrain(program.variables()[v], variables.values[v]);
    }
  }
}

void CheckScores(const json& golden, GradientProgram& program, const Batch& batch,
                 Variables& variables) {
  std::vector<MetricState> states;
  const absl::Status evaluated = program.Evaluate(batch, variables.value_spans(), states);
  CHECK(evaluated == absl::OkStatus());
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = program.metric_names()[i];
    INFO(name);
    if (!golden["scores"].contains(name)) continue;  // Keras 2 has other names
    CHECK(MetricValue(states[i]) ==
          Approx(golden["scores"][name].get<double>()).epsilon(1e-4).margin(2e-6));
  }
}

void CheckGraph(const json& golden, uint32_t accumulate) {
  const double tolerance = golden.value("tolerance", 0.0);
  Job job = CompiledJob(golden);
  job.accumulate = accumulate;
  const auto built = BuildKerasProgram(job, GoldenBatch(golden, false), TestOps()).value();
  GradientProgram& program = *built;
  CHECK_FALSE(program.Summary().empty());
  Variables variables(program);
  variables.Set(golden["weights"]);
  for (size_t i = 0; i < variables.names.size(); ++i) {
    INFO(variables.names[i]);
    const bool trained = golden["gradients"].contains(variables.names[i]);
    const VariableSpec& spec = program.variables()[i];
    CHECK((spec.trainable() && spec.moving_average() == 0) == trained);
  }
  const Batch batch = GoldenBatch(golden, true);

  const auto outputs = program.Predict(batch, variables.value_spans()).value();
  REQUIRE(outputs.size() == golden["outputs"].size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    CheckClose("output " + outputs[i].name, outputs[i].values, golden["outputs"][i]["values"],
               tolerance);
  }
  if (tolerance == 0) CheckScores(golden, program, batch, variables);
  std::map<size_t, std::vector<float>> there;  // gradients reported as final
  program.OnGradient([&](size_t v) { CHECK(there.emplace(v, variables.gradients[v]).second); });
  for (int step = 0; step < 3; ++step) {
    there.clear();
    const double loss =
        program.ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
            .value();
    CHECK((!there.empty() || golden["gradients"].empty()));
    for (const auto& [v, early] : there) {
      INFO(variables.names[v]);
      CHECK(early == variables.gradients[v]);  // nothing was added later
    }
    if (step == 0) {
      CHECK(loss == Approx(golden["loss_value"].get<double>())
                        .epsilon(std::max(1e-4, tolerance))
                        .margin(2e-6));
      for (size_t i = 0; i < variables.names.size(); ++i) {
        if (!golden["gradients"].contains(variables.names[i])) continue;
        CheckClose(variables.names[i], variables.gradients[i],
                   golden["gradients"][variables.names[i]], tolerance);
      }
    }
    Step(program, golden["rate"], variables);
  }
  for (size_t i = 0; i < variables.names.size(); ++i) {
    CheckClose(variables.names[i] + " after three steps", variables.values[i],
               golden["after"][variables.names[i]], tolerance);
  }
}

// Tries a case. A failure does not prevent the next case.
void TryGraph(const json& golden, uint32_t accumulate) {
  INFO(golden["name"] << ", accumulate " << accumulate);
  try {
    CheckGraph(golden, accumulate);
  } catch (const absl::BadStatusOrAccess& error) {
    FAIL_CHECK(error.status());
  }
}

// Returns whether a model needs statistics of the whole batch, which slices lack.
bool OfWholeBatch(const json& golden) {
  return TextOf(golden).find("BatchNormalization") != std::string::npos;
}

void CheckFile(const std::string& name, size_t least) {
  const json cases = GoldenJson(name);
  REQUIRE(cases.size() >= least);
  for (const json& golden : cases) {
    TryGraph(golden, 1);
    if (!OfWholeBatch(golden)) TryGraph(golden, 2);
  }
}

TEST_CASE("compiled models of Keras 3 compute and learn what Keras does") {
  CheckFile("graph.keras3.json", 99);
}

TEST_CASE("compiled models of Keras 2 compute and learn what Keras 2 does") {
  CheckFile("graph.keras2.json", 55);
}

TEST_CASE("recommenders compute and learn what Keras-RS does") {
  CheckFile("recommender.keras3.json", 23);
}

TEST_CASE("models over sequences compute and learn what Keras 3 does") {
  CheckFile("sequence.keras3.json", 80);
}

TEST_CASE("models over sequences compute and learn what Keras 2 does") {
  CheckFile("sequence.keras2.json", 76);
}

TEST_CASE("rare masks, losses without logits and vectors near to zero are those of Keras 3") {
  CheckFile("edge.keras3.json", 5);
}

TEST_CASE("statistics of batches, ties and focal losses are those of Keras 3") {
  CheckFile("batch.keras3.json", 34);
}

TEST_CASE("statistics of batches, ties and focal losses are those of Keras 2") {
  CheckFile("batch.keras2.json", 26);
}

TEST_CASE("masks in merges, what is frozen and the modes of calls are those of Keras 3") {
  CheckFile("call.keras3.json", 10);
}

TEST_CASE("masks in merges, what is frozen and the modes of calls are those of Keras 2") {
  CheckFile("call.keras2.json", 10);
}

TEST_CASE("constants, and the masks that calls name, are those of Keras 3") {
  CheckFile("constant.keras3.json", 13);
}

TEST_CASE("constants, and the masks that calls name, are those of Keras 2") {
  CheckFile("constant.keras2.json", 12);
}

TEST_CASE("layers over images compute and learn what Keras 3 does") {
  CheckFile("image.keras3.json", 18);
}

TEST_CASE("layers over images compute and learn what Keras 2 does") {
  CheckFile("image.keras2.json", 13);
}

TEST_CASE("operations on tensors are those of Keras 3") { CheckFile("operation.keras3.json", 15); }

TEST_CASE("functions of TensorFlow are those that Keras 2 calls") {
  CheckFile("operation.keras2.json", 13);
}

TEST_CASE("sums along an axis and constraints are those of Keras 3") {
  CheckFile("size.keras3.json", 6);
}

TEST_CASE("what Keras 2 computes of shapes, and constraints, are those of Keras 2") {
  CheckFile("size.keras2.json", 10);
}

}  // namespace
}  // namespace paracord
