// Writes layers of a Functional model in the format of Keras 3, for made-up graphs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keras/graph.h"
#include "tests/keras/model_testing.h"

namespace paracord {

// Returns a call of a layer with the output of the given call of another layer.
inline nlohmann::json Call(const std::string& of, int call = 0) {
  const nlohmann::json tensor = {{"class_name", "__keras_tensor__"},
                                 {"config", {{"keras_history", {of, call, 0}}}}};
  return {{"args", nlohmann::json::array({tensor})}, {"kwargs", nlohmann::json::object()}};
}

// Returns a call of a layer with several inputs: the outputs of the first calls of the layers `of`.
inline nlohmann::json CallWith(const std::vector<std::string>& of) {
  nlohmann::json call = Call(of[0]);
  if (of.size() == 1) return call;
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& name : of) list.push_back(Call(name)["args"][0]);
  call["args"] = nlohmann::json::array({std::move(list)});
  return call;
}

inline nlohmann::json Named(const std::string& class_name, const std::string& name,
                            nlohmann::json config, std::vector<nlohmann::json> calls) {
  config["name"] = name;
  nlohmann::json layer = LayerJson(class_name, std::move(config));
  layer["name"] = name;
  layer["inbound_nodes"] = std::move(calls);
  return layer;
}

// Builds a model with one input of the shape `input`.
inline std::unique_ptr<Graph> GraphOf(Ops& ops, const nlohmann::json& model, Shape input) {
  const ModelSpec spec = ReadKerasModel(model).value();
  const std::vector<std::optional<Shape>> shapes = {std::move(input)};
  Problems problems;
  auto graph = Graph::Build(ops, spec, shapes, problems);
  INFO(problems.ToStatus());
  REQUIRE(graph != nullptr);
  return graph;
}

}  // namespace paracord
