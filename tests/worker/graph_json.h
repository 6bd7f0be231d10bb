// Layers of a Functional model as Keras 3 writes them, for graphs that tests make up.
#pragma once

#include <string>
#include <utility>

#include "tests/worker/model_testing.h"

namespace paracord {

// A call of a layer with the output of the given call of another one.
inline nlohmann::json Call(const std::string& of, int call = 0) {
  const nlohmann::json tensor = {{"class_name", "__keras_tensor__"},
                                 {"config", {{"keras_history", {of, call, 0}}}}};
  return {{"args", {tensor}}, {"kwargs", nlohmann::json::object()}};
}

inline nlohmann::json Named(const std::string& class_name, const std::string& name,
                            nlohmann::json config, nlohmann::json calls) {
  config["name"] = name;
  nlohmann::json layer = LayerJson(class_name, std::move(config));
  layer["name"] = name;
  layer["inbound_nodes"] = std::move(calls);
  return layer;
}

}  // namespace paracord
