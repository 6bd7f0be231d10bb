// A ReLU fused into the preceding layer must give the numbers of a separate ReLU.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keras/build.h"
#include "keras/graph.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// Layers between an input (3, 4) and a head; {"relu", name} stands for the ReLU.
struct FoldCase {
  std::string what;
  struct Entry {
    std::string class_name, name;
    json config;
    std::vector<std::string> from;
  };
  std::vector<Entry> layers;
  int folded = 1;
};

const json kFoldL2 = {{"class_name", "L2"}, {"config", {{"l2", 0.1}}}};

const json kDenseOf4 = {{"units", 4}}, kNone = json::object();
const std::string kNormLayer = "BatchNormalization", kReluName = "relu";

const std::vector<FoldCase> kFoldCases = {
    {"of the input", {{kNormLayer, "n", kNone, {"in"}}, {kReluName, "r", kNone, {"n"}}}},
    {"of a layer",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", kNone, {"d"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"without scale and offset",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", {{"scale", false}, {"center", false}}, {"d"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"along the last axis, by its number",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", {{"axis", 2}}, {"d"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"along another axis",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", {{"axis", 1}}, {"d"}},
      {kReluName, "r", kNone, {"n"}}},
     0},
    {"frozen",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", {{"trainable", false}}, {"d"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"masked",
     {{"Masking", "m", {{"mask_value", 0.5}}, {"in"}},
      {"Dense", "d", kDenseOf4, {"m"}},
      {kNormLayer, "n", kNone, {"d"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"of a sum",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {"Dense", "e", kDenseOf4, {"in"}},
      {"Add", "n", kNone, {"d", "e", "in"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"of a sum with a broadcast",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {"Dense", "e", {{"units", 1}}, {"in"}},
      {"Add", "n", kNone, {"d", "e"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"of a tensor and itself",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {"Add", "n", kNone, {"d", "d"}},
      {kReluName, "r", kNone, {"n"}}}},
    {"with a limit",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", kNone, {"d"}},
      {kReluName, "r", {{"max_value", 0.25}}, {"n"}}}},
    {"with a limit, masked",
     {{"Masking", "m", {{"mask_value", 0.5}}, {"in"}},
      {kNormLayer, "n", kNone, {"m"}},
      {kReluName, "r", {{"max_value", 0.25}}, {"n"}}}},
    {"from a threshold",
     {{kNormLayer, "n", kNone, {"in"}}, {kReluName, "r", {{"threshold", 0.25}}, {"n"}}},
     0},
    {"with a penalty on it",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", kNone, {"d"}},
      {kReluName, "r", {{"activity_regularizer", kFoldL2}}, {"n"}}}},
    {"twice",
     {{kNormLayer, "n", kNone, {"in"}},
      {kReluName, "r", kNone, {"n"}},
      {kReluName, "r2", kNone, {"r"}}}},
    {"seen by two",
     {{"Dense", "d", kDenseOf4, {"in"}},
      {kNormLayer, "n", kNone, {"d"}},
      {kReluName, "r0", kNone, {"n"}},
      {"Multiply", "r", kNone, {"n", "r0"}}},
     0},
    {"of a penalised layer",
     {{kNormLayer, "n", {{"activity_regularizer", kFoldL2}}, {"in"}},
      {kReluName, "r", kNone, {"n"}}},
     0},
    {"of a view",
     {{kNormLayer, "n", kNone, {"in"}},
      {"Reshape", "v", {{"target_shape", {3, 4}}}, {"n"}},
      {kReluName, "r", kNone, {"v"}}},
     0},
    {"of another average",
     {{"Average", "n", kNone, {"in", "in"}}, {kReluName, "r", kNone, {"n"}}},
     0},
};

// `apart`: gives the ReLU a tiny slope below zero, which prevents the fusion.
json ModelOf(const FoldCase& of, bool apart) {
  json layers = json::array();
  layers.push_back(Named("InputLayer", "in", {{"batch_shape", {nullptr, 3, 4}}}, json::array()));
  for (const FoldCase::Entry& entry : of.layers) {
    json config = entry.config;
    if (entry.class_name == "relu" && apart) config["negative_slope"] = 1e-30;
    const std::string class_name = entry.class_name == "relu" ? "ReLU" : entry.class_name;
    layers.push_back(Named(class_name, entry.name, config, {CallWith(entry.from)}));
  }
  layers.push_back(Named("Dense", "head", {{"units", 2}}, {Call(of.layers.back().name)}));
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers", layers},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{"head", 0, 0}}}}}};
}

int Folded(const json& model) {
  const auto ops = TestOps();
  const auto graph = GraphOf(*ops, model, {3, 4});
  int folded = 0;
  for (const LayerRow& row : graph->Describe())
    folded += row.class_name == "ReLU" && row.floats == 0;
  return folded;
}

struct Numbers {
  double loss = 0;
  std::vector<std::vector<float>> gradients, outputs;
};

Numbers ComputeModel(const json& model) {
  Batch schema = SchemaOf({3, 4}, {3, 2});
  const auto program = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  Batch batch = RandomBatch(schema, 5, 0, 3);
  for (size_t i = 0; i < 8; ++i) batch.inputs[0].values[i] = 0.5f;  // hidden by the mask
  Variables variables(**program);
  variables.Randomise(1);
  for (size_t i = 0; i < variables.values.size(); ++i) {
    if (variables.names[i].find("variance") == std::string::npos) continue;
    for (float& x : variables.values[i]) x = std::abs(x) + 0.1f;
  }
  Numbers numbers;
  const auto loss =
      (*program)->ComputeGradients(batch, 7, variables.value_spans(), variables.gradient_spans());
  REQUIRE(loss.ok());
  numbers.loss = *loss;
  numbers.gradients = variables.gradients;
  const auto columns = (*program)->Predict(batch, variables.value_spans());
  REQUIRE(columns.ok());
  for (const Column& column : *columns) numbers.outputs.push_back(column.values);
  return numbers;
}

TEST_CASE("a ReLU that the layer before it computes has the numbers of one by itself") {
  for (const FoldCase& one : kFoldCases) {
    CAPTURE(one.what);
    CHECK(Folded(ModelOf(one, false)) == one.folded);
    CHECK(Folded(ModelOf(one, true)) == 0);
    const Numbers folded = ComputeModel(ModelOf(one, false)),
                  apart = ComputeModel(ModelOf(one, true));
    CHECK(folded.loss == Approx(apart.loss).epsilon(1e-6));
    REQUIRE(folded.gradients.size() == apart.gradients.size());
    for (size_t v = 0; v < apart.gradients.size(); ++v) {
      REQUIRE(folded.gradients[v].size() == apart.gradients[v].size());
      for (size_t i = 0; i < apart.gradients[v].size(); ++i) {
        CHECK(folded.gradients[v][i] == Approx(apart.gradients[v][i]).margin(2e-6));
      }
    }
    REQUIRE(folded.outputs.size() == 1);
    for (size_t i = 0; i < apart.outputs[0].size(); ++i) {
      CHECK(folded.outputs[0][i] == Approx(apart.outputs[0][i]).margin(1e-6));
    }
  }
}

TEST_CASE("a ReLU of minus infinity is zero, as in Keras") {
  const json model =
      SequentialJson({LayerJson("InputLayer", {{"batch_shape", {nullptr, 1}}}),
                      LayerJson("Dense", {{"name", "d"}, {"units", 3}, {"use_bias", false}}),
                      LayerJson("ReLU", {{"name", "r"}, {"max_value", nullptr}})});
  const Batch schema = SchemaOf({1}, {3});
  const auto program = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps());
  REQUIRE(program.ok());
  Variables variables(**program);
  variables.values[0] = {-3e38f, -1, 2};
  variables.Bind();
  Batch batch = RandomBatch(schema, 1, 0, 1);
  batch.inputs[0].values = {2};
  const auto columns = (*program)->Predict(batch, variables.value_spans());
  REQUIRE(columns.ok());
  CHECK((*columns)[0].values == std::vector<float>{0, 0, 4});
}

}  // namespace
}  // namespace paracord
