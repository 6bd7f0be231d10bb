// With a mixed policy, a tensor between layers is bfloat16 if all layers that write or read it
// support bfloat16, and numbers stay close to float32's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keras/build.h"
#include "keras/graph.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// Layers between an input (8, 8, 16) and a float32 head. A layer reads its predecessor or the
// layers that it names. `halved`: the layers with bfloat16 output.
struct Case {
  std::string what;
  struct Entry {
    std::string class_name, name;
    json config = json::object();
    std::vector<std::string> from = {};
  };
  std::vector<Entry> layers;
  std::vector<std::string> halved;
  std::vector<std::string> on_gpu = {};  // further such layers on a GPU, if the CPU lacks bfloat16
};

json Conv(json more = json::object()) {
  json config = {{"filters", 16}, {"kernel_size", {3, 3}}, {"padding", "same"}};
  config.update(more);
  return config;
}

const json kL2 = {{"class_name", "L2"}, {"config", {{"l2", 0.1}}}};
const std::string kConv = "Conv2D", kNorm = "BatchNormalization", kRelu = "ReLU";
const Case::Entry kLast{"GlobalAveragePooling2D", "last"};

const std::vector<Case> kCases = {
    {"a residual block",
     {{kConv, "c1", Conv({{"use_bias", false}})},
      {kNorm, "n1", {{"axis", 3}}},
      {kRelu, "r1"},
      {kConv, "c2", Conv()},
      {kNorm, "n2"},
      {"Add", "a", json::object(), {"n2", "r1"}},
      {kRelu, "r2"},
      {kConv, "c3", Conv({{"strides", {2, 2}}, {"activation", "relu"}})},
      {"MaxPooling2D", "m", {{"pool_size", {2, 2}}}},
      kLast},
     {"c1", "n1", "c2", "n2", "a", "c3", "m"}},
    {"a tensor that three read, one of them twice",
     {{kConv, "c1", Conv()},
      {kConv, "c2", Conv({{"activation", "swish"}}), {"c1"}},
      {"Add", "a1", json::object(), {"c1", "c1"}},
      {"Add", "a2", json::object(), {"a1", "c2", "c1"}},
      kLast},
     {"c1", "c2", "a1", "a2"}},
    {"by channel, by both, and averages",
     {{"DepthwiseConv2D", "d", {{"kernel_size", {3, 3}}, {"depth_multiplier", 2}}},
      {kNorm, "n", {{"trainable", false}}},
      {kRelu, "r", {{"max_value", 6}}},
      {"SeparableConv2D", "s", Conv({{"activation", "tanh"}})},
      {"AveragePooling2D", "p", {{"pool_size", {2, 2}}}},
      kLast},
     {"s", "p"},
     {"d", "n"}},
    {"what reads it takes float32",
     {{kConv, "c1", Conv()},
      {"ZeroPadding2D", "z", {{"padding", {1, 1}}}},
      {kConv, "c2", Conv()},
      {"PReLU", "p"},
      {kConv, "c3", Conv()},
      {kNorm, "n", {{"dtype", "float32"}}},
      {kConv, "c4", Conv({{"activation", "relu"}})},
      {"Add", "a", json::object(), {"c4", "c3"}},
      {kConv, "c5", Conv()},
      {"Reshape", "v", {{"target_shape", {100, 16}}}},
      {"GlobalMaxPooling1D", "last"}},
     {"c1", "z", "c4", "a"}},
    {"moved, dropped and weighed",
     {{kConv, "c1", Conv()},
      {"GlobalAveragePooling2D", "g", {{"keepdims", true}}},
      {"Activation", "s", {{"activation", "sigmoid"}}},
      {"Multiply", "m", json::object(), {"c1", "s"}},
      {"Dropout", "d", {{"rate", 0.25}}},
      {"SpatialDropout2D", "sd", {{"rate", 0.25}}},
      {"Concatenate", "j", json::object(), {"sd", "c1"}},
      {"UpSampling2D", "u"},
      {"Permute", "p", {{"dims", {2, 1, 3}}}},
      {"Cropping2D", "z", {{"cropping", {{1, 2}, {3, 4}}}}},
      {kConv, "c2", Conv({{"strides", {2, 2}}})},
      kLast},
     {"c1", "g", "s", "m", "d", "sd", "j", "u", "p", "z", "c2"}},
    {"numbers that the model is given, which may be of any kind",
     {{"Permute", "p1", {{"dims", {2, 1, 3}}}},
      {"Add", "a", json::object(), {"p1", "in"}},
      {"ZeroPadding2D", "z", {{"padding", {1, 1}}}},
      {"MaxPooling2D", "m", {{"pool_size", {2, 2}}}},
      {kConv, "c", Conv()},
      {kNorm, "n"},
      kLast},
     {"c", "n"}},
    {"penalised, and a view",
     {{kConv, "c1", Conv({{"activity_regularizer", kL2}})},
      {kConv, "c2", Conv()},
      {"Reshape", "v", {{"target_shape", {4, 16, 16}}}},
      {kConv, "c3", Conv()},
      kLast},
     {"c2", "c3"}},
};

json ModelOf(const Case& of, const char* policy) {
  json layers = json::array();
  layers.push_back(
      Named("InputLayer", "in", {{"batch_shape", {nullptr, 8, 8, 16}}}, json::array()));
  std::string before = "in";
  for (const Case::Entry& entry : of.layers) {
    const std::vector<std::string> from =
        entry.from.empty() ? std::vector<std::string>{before} : entry.from;
    json config = entry.config;
    if (!config.contains("dtype")) config["dtype"] = policy;
    layers.push_back(Named(entry.class_name, entry.name, config, {CallWith(from)}));
    before = entry.name;
  }
  layers.push_back(Named("Dense", "head", {{"units", 2}}, {Call("last")}));
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers", layers},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{"head", 0, 0}}}}}};
}

constexpr int64_t kExamples = 5;

// Returns the bytes of an output element, by layer.
std::map<std::string, int64_t> Widths(const json& model) {
  const auto ops = TestOps();
  const auto graph = GraphOf(*ops, model, {8, 8, 16});
  graph->PlanTraining(graph->outputs(), false, {});
  REQUIRE(graph->Prepare(kExamples).ok());
  std::map<std::string, int64_t> elements, widths;
  for (const LayerRow& row : graph->Describe()) elements[row.name] = Elements(row.output);
  for (const MemoryRow& row : graph->Memory()) {
    if (row.kind != MemoryRow::Kind::kValues) continue;
    const size_t begin = row.what.find('"') + 1;
    const std::string name = row.what.substr(begin, row.what.find('"', begin) - begin);
    widths[name] = row.bytes / (kExamples * elements[name]);
  }
  return widths;
}

// Returns a step's gradients and the outputs of inference.
std::vector<std::vector<float>> Compute(const json& model) {
  const Batch schema = SchemaOf({8, 8, 16}, {2});
  const auto program = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  const Batch batch = RandomBatch(schema, kExamples, 0, 3);
  Variables variables(**program);
  variables.Randomise(1, 0.3f);
  for (size_t i = 0; i < variables.values.size(); ++i) {
    if (variables.names[i].find("variance") == std::string::npos) continue;
    for (float& x : variables.values[i]) x = std::abs(x) + 0.5f;
  }
  REQUIRE((*program)
              ->ComputeGradients(batch, 7, variables.value_spans(), variables.gradient_spans())
              .ok());
  std::vector<std::vector<float>> all = variables.gradients;
  const auto columns = (*program)->Predict(batch, variables.value_spans());
  REQUIRE(columns.ok());
  for (const Column& column : *columns) all.push_back(column.values);
  return all;
}

TEST_CASE("tensors between layers are bfloat16 where all that write and read them take it") {
  const bool has = TestOps()->has_bfloat16(), on_cpu = TestOps()->host_memory();
  for (const Case& one : kCases) {
    CAPTURE(one.what);
    for (const auto& [name, width] : Widths(ModelOf(one, "mixed_bfloat16"))) {
      const auto in = [&name = name](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), name) != names.end();
      };
      CAPTURE(name);
      CHECK(width == (has && (in(one.halved) || (!on_cpu && in(one.on_gpu))) ? 2 : 4));
    }
    const auto exact = Compute(ModelOf(one, "float32"));
    const auto rounded = Compute(ModelOf(one, "mixed_bfloat16"));
    REQUIRE(rounded.size() == exact.size());
    for (size_t v = 0; v < exact.size(); ++v) {
      double apart = 0, all = 0;
      for (size_t i = 0; i < exact[v].size(); ++i) {
        apart += std::pow(static_cast<double>(rounded[v][i] - exact[v][i]), 2);
        all += std::pow(static_cast<double>(exact[v][i]), 2);
      }
      CAPTURE(v, apart, all);
      // A ReLU or maximum that flips changes more than the last digits. The gradient of a bias
      // before a normalisation is zero.
      CHECK((all < 1e-9 || std::sqrt(apart) <= 0.25 * std::sqrt(all)));
    }
  }
}

}  // namespace
}  // namespace paracord
