// Tests layers and operations that are called several times, with different shapes or numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/metric.h"
#include "keras/build.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;
using Shapes = std::vector<std::vector<uint64_t>>;

// A layer called once for each input shape. Every call is an output.
struct Calls {
  std::string layer;
  json config;
  Shapes inputs;
  json argument = nullptr;  // besides the tensor
  Shapes outputs = inputs;
};

json ModelOf(const Calls& calls) {
  json layers = json::array(), nodes = json::array(), ins = json::array(), outs = json::array();
  for (size_t i = 0; i < calls.inputs.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    json shape = calls.inputs[i];
    shape.insert(shape.begin(), nullptr);
    layers.push_back(Named("InputLayer", name, {{"batch_shape", shape}}, json::array()));
    nodes.push_back(Call(name));
    if (!calls.argument.is_null()) nodes.back()["args"].push_back(calls.argument);
    ins.push_back({name, 0, 0});
    outs.push_back({"twice", i, 0});
  }
  json layer = Named(calls.layer, "twice", calls.config, std::move(nodes));
  if (!calls.config.contains("dtype")) layer["module"] = "keras.src.ops.numpy";
  layers.push_back(std::move(layer));
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"}, {"layers", layers}, {"input_layers", ins}, {"output_layers", outs}}}};
}

// Returns each output for inputs of consecutive numbers.
std::vector<std::vector<float>> Outputs(const Calls& calls) {
  constexpr uint32_t kExamples = 3;
  Batch batch = SchemaOf({}, {});
  batch.inputs.clear();
  batch.targets.clear();
  batch.examples = kExamples;
  for (size_t i = 0; i < calls.inputs.size(); ++i) {
    Column& column = batch.inputs.emplace_back();
    column.name = "in" + std::to_string(i);
    column.shape = calls.inputs[i];
    size_t size = kExamples;
    for (const uint64_t dim : column.shape) size *= dim;
    for (size_t k = 0; k < size; ++k) column.values.push_back(static_cast<float>(k + 1));
    const std::string output = i == 0 ? "twice" : "twice_" + std::to_string(i);
    batch.targets.push_back({output, calls.outputs[i], {}});
  }
  const auto program = BuildKerasProgram(JobFor(ModelOf(calls), "mse"), batch, TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  Variables variables(**program);
  variables.Randomise(1);
  const auto columns = (*program)->Predict(batch, variables.value_spans());
  REQUIRE(columns.ok());
  std::vector<std::vector<float>> outputs;
  for (const Column& column : *columns) outputs.push_back(column.values);
  return outputs;
}

TEST_CASE("a layer computes each of its calls by the shape of that call's input") {
  const json layer = {{"dtype", "float32"}};
  const auto with = [&](json config) {
    config.update(layer);
    return config;
  };
  for (const Calls& calls : std::vector<Calls>{
           {"Split",
            {{"indices_or_sections", 2}, {"axis", 1}},
            {{4, 2}, {6, 2}, {2, 2}},
            nullptr,
            {{2, 2}, {3, 2}, {1, 2}}},
           {"Unstack", {{"axis", 1}}, {{2, 3}, {4, 3}, {1, 3}}, nullptr, {{3}, {3}, {3}}},
           {"Take", {{"axis", 1}}, {{4, 2}, {6, 2}, {2, 2}}, -1, {{2}, {2}, {2}}},
           {"UnitNormalization", with({{"axis", -1}}), {{4, 3}, {3}, {2, 2, 3}}},
           {"RMSNormalization", with({{"axis", -1}}), {{4, 3}, {3}, {2, 2, 3}}},
           {"GroupNormalization",
            with({{"groups", -1}, {"scale", false}, {"center", false}}),
            {{3, 4}, {3, 2}, {3, 6}}},
           {"Normalization",
            with({{"axis", -1}, {"mean", 2}, {"variance", 4}}),
            {{4}, {3}, {6}}}}) {
    CAPTURE(calls.layer);
    const std::vector<std::vector<float>> together = Outputs(calls);
    REQUIRE(together.size() == calls.inputs.size());
    for (size_t i = 0; i < together.size(); ++i) {
      CAPTURE(i);
      const Calls one{
          calls.layer, calls.config, {calls.inputs[i]}, calls.argument, {calls.outputs[i]}};
      CHECK(together[i] == Outputs(one)[0]);
    }
  }
}

TEST_CASE("the loss of a softmax along another axis than the last is not taken of its logits") {
  const auto loss = [](const Shapes& inputs) {
    Batch batch = SchemaOf({}, {});
    batch.inputs.clear();
    batch.targets.clear();
    batch.examples = 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string number = std::to_string(i);
      std::vector<float> values = {1, 2, 3, 5, 8, 13};
      values.resize(inputs[i].size() == 1 ? 3 : 6);
      batch.inputs.push_back({"in" + number, inputs[i], values});
      batch.targets.push_back({i == 0 ? "twice" : "twice_" + number, inputs[i], values});
    }
    Job job = JobFor(ModelOf({"Softmax", {{"dtype", "float32"}, {"axis", 1}}, inputs}), "mse", 1);
    job.losses = {{.name = "categorical_crossentropy", .output = "twice"}};
    const auto program = BuildKerasProgram(job, batch, TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    Variables variables(**program);
    std::vector<MetricState> states;
    REQUIRE((*program)->Evaluate(batch, variables.value_spans(), states).ok());
    return MetricValue(states[0]);
  };
  CHECK(loss({{3, 2}, {3}}) == Approx(loss({{3, 2}})));
}

TEST_CASE("an operation that is called with other numbers than before is refused") {
  for (const auto& [operation, first, second] : std::vector<std::tuple<std::string, json, json>>{
           {"Multiply", 2, 3}, {"Multiply", 2, json()}, {"Take", 1, -1}, {"Where", 2, 3}}) {
    CAPTURE(operation);
    json model = ModelOf({operation, {{"axis", 1}}, {{4, 2}, {4, 2}}, 2});
    json& calls = model["config"]["layers"][2]["inbound_nodes"];
    const auto call = [&, &operation = operation](size_t i, const json& number) {
      json& args = calls[i]["args"];
      args[1] = number.is_null() ? args[0] : number;
      if (operation == "Where") args.push_back(1);
    };
    if (operation != "Take") model["config"]["layers"][2]["config"].erase("axis");
    call(0, first);
    call(1, second);
    const absl::Status status =
        BuildKerasProgram(JobFor(model, "mse"), SchemaOf({4, 2}, {4, 2}), TestOps()).status();
    INFO(status);
    CHECK(std::string(status.message()).find("is called with other arguments than before") !=
          std::string::npos);
  }
}

// Keras orders calls by map_graph, whatever their numbers.
TEST_CASE(
    "moving averages take the calls of a shared layer in the order in which Keras makes them") {
  const bool deeper = GENERATE(false, true);  // the call that would otherwise be second
  json difference = Call("s", 1);             // a's call minus b's call
  difference["args"] = {
      {Call(deeper ? "more" : "s", deeper ? 0 : 1)["args"][0], Call("s", 0)["args"][0]}};
  const json model = {{"class_name", "Functional"},
                      {"config",
                       {{"name", "m"},
                        {"layers",
                         {Named("InputLayer", "a", {{"batch_shape", {nullptr, 2}}}, json::array()),
                          Named("InputLayer", "b", {{"batch_shape", {nullptr, 2}}}, json::array()),
                          Named("BatchNormalization", "s", {{"momentum", 0.5}},
                                {Call(deeper ? "a" : "b"), Call(deeper ? "b" : "a")}),
                          Named("Dense", "more", {{"units", 2}}, {Call("s", 1)}),
                          Named("Subtract", "d", json::object(), {difference})}},
                        {"input_layers", {{"a", 0, 0}, {"b", 0, 0}}},
                        {"output_layers", {{"d", 0, 0}}}}}};
  Batch batch = SchemaOf({2}, {2});
  batch.inputs = {{"a", {2}, {1, 1, 1, 1}}, {"b", {2}, {4, 4, 4, 4}}};
  batch.targets[0].values = {0, 0, 0, 0};
  batch.examples = 2;
  const auto program = BuildKerasProgram(JobFor(model, "mse"), batch, TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  Variables variables(**program);
  variables.Randomise(1);
  variables.values[3] = {1, 1};
  variables.Bind();
  REQUIRE((*program)
              ->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
              .ok());
  const auto mean = std::find(variables.names.begin(), variables.names.end(), "s/moving_mean");
  REQUIRE(mean != variables.names.end());
  const auto& seen = variables.gradients[static_cast<size_t>(mean - variables.names.begin())];
  // The second call counts for two thirds.
  const float first = deeper ? 4 : 1, second = deeper ? 1 : 4;
  CHECK(seen[0] == Approx((first + 2 * second) / 3));
}

}  // namespace
}  // namespace paracord
