// Reads a Keras model file (model.to_json() of Keras 3, of Keras 2, of tf_keras) into a graph of
// layer calls. Knows the dialects and nothing of what a layer does: layers.cc reads their configs,
// graph.h builds them. Sequential for now; a Functional model becomes the same ModelSpec. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr const char* kInputLayer = "InputLayer";

struct LayerSpec {
  std::string class_name;
  std::string name;
  nlohmann::json config;
};

// One call of a layer on the outputs of earlier nodes.
struct NodeSpec {
  size_t layer = 0;
  std::vector<size_t> inputs;  // nodes; empty for an InputLayer
};

struct ModelSpec {
  std::vector<LayerSpec> layers;
  std::vector<NodeSpec> nodes;  // in an order in which every input comes before its use
  std::vector<size_t> inputs;   // nodes
  std::vector<size_t> outputs;  // nodes
  bool keras2 = false;
};

// Errors name the layer where there is one, and say what is supported.
absl::StatusOr<ModelSpec> ReadKerasModel(const nlohmann::json& model);

}  // namespace paracord
