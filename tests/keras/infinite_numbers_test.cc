// Tests infinite numbers in a model file, in Python's spelling of float('-inf').
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "keras/build.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

json TensorOf(const std::string& of) { return Call(of)["args"][0]; }

json Operation(const std::string& class_name, const std::string& name, json config, json args) {
  json layer = Named(class_name, name, std::move(config), json::array());
  layer["module"] = "keras.src.ops.numpy";
  layer["inbound_nodes"] = {{{"args", std::move(args)}, {"kwargs", json::object()}}};
  return layer;
}

// Returns the outputs of a model with three inputs for (1, 0.5, -1). The last layer is "last".
std::vector<float> Outputs(std::vector<json> layers) {
  json all =
      json::array({Named("InputLayer", "in", {{"batch_shape", {nullptr, 3}}}, json::array())});
  for (json& layer : layers) all.push_back(std::move(layer));
  const json model = {
      {"class_name", "Functional"},
      {"config",
       {{"layers", all}, {"input_layers", {"in", 0, 0}}, {"output_layers", {"last", 0, 0}}}}};
  Batch batch = SchemaOf({3}, {3});
  const auto program = BuildKerasProgram(JobFor(model, "mse", 1), batch, TestOps());
  INFO(program.status().ToString());
  REQUIRE(program.ok());
  batch.examples = 1;
  batch.inputs[0].values = {1, .5f, -1};
  batch.targets[0].values = {0, 0, 0};
  Variables variables(**program);
  return (*program)->Predict(batch, variables.value_spans()).value()[0].values;
}

void CheckNear(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]));
}

TEST_CASE("elements that where() makes minus infinity have no share of a softmax") {
  const float high = 1 / (1 + std::exp(-.5f));
  CheckNear(Outputs({Operation("Greater", "above", json::object(), {TensorOf("in"), 0}),
                     Operation("Where", "where", json::object(),
                               {TensorOf("above"), TensorOf("in"), -kInfinity}),
                     Named("Softmax", "last", {{"axis", -1}}, json::array({Call("where")}))}),
            {high, 1 - high, 0});
}

TEST_CASE("bounds may be infinite, sizes and rates may not") {
  CheckNear(Outputs({Operation("Clip", "last", {{"x_min", -kInfinity}, {"x_max", .75}},
                               json::array({TensorOf("in")}))}),
            {.75f, .5f, -1});
  CheckNear(Outputs({Named("ReLU", "last", {{"max_value", kInfinity}}, json::array({Call("in")}))}),
            {1, .5f, 0});
  CheckNear(Outputs({Operation("Maximum", "last", json::object(), {TensorOf("in"), -kInfinity})}),
            {1, .5f, -1});
  const json dropout = LayerJson("Dropout", {{"name", "d"}, {"rate", kInfinity}});
  CHECK(CheckKerasModel(JobFor(SequentialJson({dropout}), "mse"), TestOps()).message() ==
        "layer \"d\" (Dropout): key \"rate\": must be a number, not Infinity");
}

}  // namespace
}  // namespace paracord
