#include "cli/input_look.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paracord {
namespace {

using nlohmann::json;

// Follows an input through layers that only move numbers.
void FollowInput(const ModelSpec& model, size_t node, size_t depth, InputLook& input) {
  constexpr size_t kFollowedMax = 16;
  if (depth > kFollowedMax) return;
  for (size_t user = 0; user < model.nodes.size(); ++user) {
    const NodeSpec& call = model.nodes[user];
    if (std::ranges::find(call.inputs, node) == call.inputs.end()) continue;
    const LayerSpec& layer = model.layers[call.layer];
    if (LooksUpIds(layer)) {
      input.looks_up = true;
      if (depth == 0) input.tables.push_back(layer.name);
      const auto rows = layer.config.find("input_dim");
      if (rows != layer.config.end() && rows->is_number()) {
        input.rows = std::min(input.rows.value_or(INFINITY), rows->get<double>());
      }
    }
    input.scaled = input.scaled || layer.class_name == "Normalization" ||
                   layer.class_name == "BatchNormalization" ||
                   layer.class_name == "LayerNormalization" ||
                   layer.class_name == "Discretization" || layer.class_name == "Rescaling";
    input.dense = input.dense || layer.class_name == "Dense";
    if (layer.class_name == "Concatenate" || layer.class_name == "Flatten" ||
        layer.class_name == "Reshape") {
      FollowInput(model, user, depth + 1, input);
    }
  }
}

}  // namespace

std::vector<InputLook> LookAtInputs(const ModelSpec& model) {
  std::vector<InputLook> inputs;
  for (const Endpoint& endpoint : model.inputs) {
    const json& config = model.layers[model.nodes[endpoint.node].layer].config;
    InputLook input;
    input.name = endpoint.name();
    const auto dtype = config.find("dtype");
    if (dtype != config.end() && dtype->is_string()) input.dtype = dtype->get<std::string>();
    for (const char* key : {"batch_shape", "batch_input_shape"}) {
      const auto shape = config.find(key);
      if (shape == config.end() || !shape->is_array() || shape->empty()) continue;
      size_t numbers = 1;
      bool known = true;
      for (size_t i = 1; i < shape->size(); ++i) {
        known = known && (*shape)[i].is_number_unsigned();
        if (known) numbers *= (*shape)[i].get<size_t>();
      }
      if (known) input.numbers = numbers;
    }
    FollowInput(model, endpoint.node, 0, input);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string LastActivation(const ModelSpec& model, size_t output) {
  const LayerSpec& layer = model.layers[model.nodes[model.outputs[output].node].layer];
  if (layer.class_name == "Softmax") return "softmax";
  const auto activation = layer.config.find("activation");
  if (activation == layer.config.end()) return "";
  return activation->is_string() ? activation->get<std::string>() : "";
}

}  // namespace paracord
