#include "keras/ragged.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

constexpr const char* kPresent = "/present";

bool IsRagged(const LayerSpec& layer) {
  const auto ragged = layer.config.find("ragged");
  return ragged != layer.config.end() && *ragged == true;
}

bool Reduces(const LayerSpec& layer) {
  return !layer.operation && layer.class_name == "EmbedReduce";
}

bool Reads(const NodeSpec& node, size_t input) {
  const auto masks = [&](const auto& mask) { return mask.second == input; };
  return std::ranges::find(node.inputs, input) != node.inputs.end() ||
         std::ranges::any_of(node.masks, masks);
}

// Inserts an input behind the ragged one, for its readers without weights.
void AddPresent(ModelSpec& model, size_t of) {
  const Endpoint input = model.inputs[of];
  const size_t added = input.node + 1;
  const auto move = [&](size_t& node) { node += node >= added ? 1 : 0; };
  for (NodeSpec& node : model.nodes) {
    for (size_t& from : node.inputs) move(from);
    for (auto& [name, mask] : node.masks) move(mask);
    const bool alone = node.inputs.size() == 1 && node.inputs[0] == input.node;
    if (alone && Reduces(model.layers[node.layer])) node.inputs.push_back(added);
  }
  for (Endpoint& each : model.inputs) move(each.node);
  for (Endpoint& each : model.outputs) move(each.node);
  LayerSpec layer = model.layers[model.nodes[input.node].layer];
  layer.name += kPresent;
  layer.config["dtype"] = "float32";
  NodeSpec node;
  node.layer = model.layers.size();
  node.turn = model.nodes[input.node].turn;
  model.nodes.insert(model.nodes.begin() + static_cast<std::ptrdiff_t>(added), std::move(node));
  Endpoint present{added, absl::StrCat(input.layer, kPresent), input.key};
  if (!present.key.empty()) present.key += kPresent;
  model.inputs.push_back(std::move(present));
  model.layers.push_back(std::move(layer));
}

}  // namespace

void TakeRaggedInputs(ModelSpec& model) {
  const size_t given = model.inputs.size();
  for (size_t i = 0; i < given; ++i) {
    const size_t input = model.inputs[i].node;
    LayerSpec& layer = model.layers[model.nodes[input].layer];
    if (!IsRagged(layer)) continue;
    layer.config["ragged"] = false;
    const auto reads_otherwise = [&](const NodeSpec& node) {
      return Reads(node, input) && !Reduces(model.layers[node.layer]);
    };
    const auto gives = [&](const Endpoint& output) { return output.node == input; };
    if (std::ranges::any_of(model.nodes, reads_otherwise) ||
        std::ranges::any_of(model.outputs, gives)) {
      model.problems.push_back(
          absl::StrCat(LayerTitle(kInputLayer, layer.name),
                       ": is ragged, which only EmbedReduce (of Keras-RS) takes; other layers take "
                       "lists that are filled up, with a mask"));
      continue;
    }
    const auto reads_alone = [&](const NodeSpec& node) {
      return node.inputs.size() == 1 && node.inputs[0] == input;
    };
    if (std::ranges::any_of(model.nodes, reads_alone)) AddPresent(model, i);
  }
}

}  // namespace paracord
