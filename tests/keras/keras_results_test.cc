#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "keras/json.h"
#include "keras/results.h"
#include "tests/keras/graph_json.h"
#include "tests/sanitized.h"

namespace paracord {
namespace {

using nlohmann::json;

// A link of a Functional model of Dense layers, each called once on another layer's output.
struct Link {
  const char* layer;
  const char* of;
  size_t call = 0, output = 0;
};

json Wired(const std::vector<Link>& links) {
  json input = {{"class_name", "InputLayer"},
                {"name", "in"},
                {"config", {{"name", "in"}, {"batch_shape", {nullptr, 4}}}},
                {"inbound_nodes", json::array()}};
  json layers = json::array({std::move(input)});
  for (const Link& link : links) {
    const json tensor = {{"class_name", "__keras_tensor__"},
                         {"config", {{"keras_history", {link.of, link.call, link.output}}}}};
    layers.push_back({{"class_name", "Dense"},
                      {"name", link.layer},
                      {"config", {{"name", link.layer}, {"units", 4}}},
                      {"inbound_nodes", json::array({{{"args", json::array({tensor})},
                                                      {"kwargs", json::object()}}})}});
  }
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers", std::move(layers)},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{links.back().layer, 0, 0}}}}}};
}

TEST_CASE("a call that can never have its inputs is named with what it takes") {
  const std::string start = "model: layer ";
  const std::vector<std::pair<json, std::string>> table = {
      {Wired({{"a", "a"}}), "\"a\" (Dense): key \"inbound_nodes\": takes its own output"},
      {Wired({{"a", "in"}, {"b", "d"}, {"c", "b"}, {"d", "c"}}),
       "\"b\" (Dense): key \"inbound_nodes\": is part of a cycle: \"b\" takes an output of \"d\", "
       "which takes an output of \"c\", which takes one of \"b\""},
      // A layer that waits for a cycle or a missing layer is not blamed.
      {Wired({{"z", "a"}, {"a", "b"}, {"b", "a"}}),
       "\"a\" (Dense): key \"inbound_nodes\": is part"},
      {Wired({{"b", "a"}, {"a", "nosuch"}}),
       "\"a\" (Dense): key \"inbound_nodes\": takes an output of layer \"nosuch\", which this "
       "model has not"},
      {Wired({{"a", "in"}, {"b", "a", 3}}),
       "\"b\" (Dense): key \"inbound_nodes\": takes an output of call 3 of layer \"a\", which has "
       "1, counted from 0"},
      {Wired({{"a", "in", 0, 2}}),
       "\"a\" (Dense): key \"inbound_nodes\": takes output 2 of layer \"in\", which has 1, counted "
       "from 0"},
  };
  for (const auto& [model, message] : table) {
    const absl::Status status = ReadKerasModel(model).status();
    INFO(message << "\n got " << status);
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).starts_with(start + message));
  }
  CHECK(ReadKerasModel(Wired({{"b", "a"}, {"a", "in"}})).ok());
}

// Returns the config of a model that calls an inner model `calls` times, nested `depth` levels
// deep. The innermost model returns its input, or the output of the layer `last` if not null.
json Nested(int depth, int calls, const json& last = nullptr) {
  json layers =
      json::array({Named("InputLayer", "in", {{"batch_shape", {nullptr, 4}}}, json::array())});
  json output = {"in", 0, 0};
  if (depth == 0 && last.is_object()) {
    layers.push_back(last);
    output = {"last", 0, 0};
  }
  if (depth > 0) {
    json nodes = json::array();
    for (int i = 0; i < calls; ++i) nodes.push_back(Call("in"));
    layers.push_back(
        Named("Functional", "inner", Nested(depth - 1, calls, last), std::move(nodes)));
    output = {"inner", 1, 0};
  }
  return {{"name", "m"},
          {"layers", std::move(layers)},
          {"input_layers", {{"in", 0, 0}}},
          {"output_layers", json::array({std::move(output)})}};
}

TEST_CASE("models without layers that call each other over and over are refused") {
  const auto read = [](int depth) {
    return ReadKerasModel({{"class_name", "Functional"}, {"config", Nested(depth, 10)}}).status();
  };
  CHECK(read(2).ok());
  if (Sanitized()) return;  // 100,000 calls take half a minute there
  CHECK(std::string(read(6).message()).find("has more than 100000 calls") != std::string::npos);
}

TEST_CASE("models that call each other over and over may have only so much to read and to add") {
  json sum = Call("in");
  sum["args"] = json::array({json::array()});
  for (int i = 0; i < 1000; ++i) sum["args"][0].push_back(Call("in")["args"][0]);
  const json add = Named("Add", "last", json::object(), {sum});
  const json large = Named(
      "Activation", "last",
      {{"activation", "relu"}, {"build_config", json::array({json(std::vector<int>(6'000, 0))})}},
      {Call("in")});
  for (const auto& [last, message] : {std::pair(add, "has more than 100000 calls"),
                                      std::pair(large, "have more than 50000000 values")}) {
    const auto read = [&last = last](int calls) {
      const json config = Nested(2, calls, last);
      return ReadKerasModel({{"class_name", "Functional"}, {"config", config}}).status();
    };
    CHECK(read(5).ok());
    if (Sanitized()) continue;
    const absl::Status many = read(100);
    INFO(many);
    CHECK(std::string(many.message()).find(message) != std::string::npos);
  }
}

TEST_CASE("long lists in a bad order are read in little more time than in a good one") {
  constexpr int kMany = 20'000;
  json calls = json::array(), outputs = json::array();
  for (int i = 1; i < kMany; ++i) calls.push_back(Call("d", i));  // each on the output of the next
  calls.push_back(Call("in"));
  for (int i = 0; i < kMany; ++i) outputs.push_back({"d", 0, 0});
  json layers = {Named("InputLayer", "in", {{"batch_shape", {nullptr, 4}}}, json::array()),
                 Named("Dense", "d", {{"units", 4}}, calls)};
  const auto model = ReadKerasModel({{"class_name", "Functional"},
                                     {"config",
                                      {{"name", "m"},
                                       {"layers", std::move(layers)},
                                       {"input_layers", {{"in", 0, 0}}},
                                       {"output_layers", std::move(outputs)}}}});
  INFO(model.status());
  REQUIRE(model.ok());
  REQUIRE(model->nodes.size() == 1 + kMany);
  for (size_t i = 1; i <= kMany; ++i) REQUIRE(model->nodes[i].inputs[0] == i - 1);
  CHECK(model->outputs.back().layer == "d_" + std::to_string(kMany - 1));
  const std::vector<json> unnamed(9'000, LayerJson("ReLU", json::object()));
  const auto sequence = ReadKerasModel(SequentialJson(unnamed));
  REQUIRE(sequence.ok());
  CHECK(sequence->layers.back().name == "relu_8999");
}

}  // namespace
}  // namespace paracord
