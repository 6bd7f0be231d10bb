#include "keras/id_inputs.h"

#include <algorithm>
#include <cstddef>

#include "tensor/row_ids.h"

namespace paracord {
namespace {

struct Readers {
  bool tables = false, others = false;
};

Readers ReadersOf(const ModelSpec& model, size_t input) {
  Readers readers;
  for (const NodeSpec& node : model.nodes) {
    const bool reads = std::ranges::find(node.inputs, input) != node.inputs.end();
    const bool masked =
        std::ranges::any_of(node.masks, [&](const auto& mask) { return mask.second == input; });
    const bool table = IsLargeTable(model, node);
    readers.tables = readers.tables || (reads && table);
    readers.others = readers.others || (reads && !table) || masked;
  }
  for (const Endpoint& output : model.outputs) {
    readers.others = readers.others || output.node == input;
  }
  return readers;
}

// Puts a copy of the input behind it, for the large tables.
void Split(ModelSpec& model, size_t input) {
  const size_t copy = input + 1;
  const auto move = [&](size_t& node) { node += node >= copy ? 1 : 0; };
  for (NodeSpec& node : model.nodes) {
    const bool table = IsLargeTable(model, node);
    for (size_t& from : node.inputs) {
      if (from == input && table) {
        from = copy;
      } else {
        move(from);
      }
    }
    for (auto& [name, mask] : node.masks) move(mask);
  }
  for (Endpoint& each : model.inputs) move(each.node);
  for (Endpoint& each : model.outputs) move(each.node);
  model.nodes.insert(model.nodes.begin() + static_cast<std::ptrdiff_t>(copy), model.nodes[input]);
}

}  // namespace

bool IsLargeTable(const ModelSpec& model, const NodeSpec& node) {
  const LayerSpec& layer = model.layers[node.layer];
  if (node.constant.has_value() || layer.operation || layer.class_name != "Embedding") return false;
  const auto rows = layer.config.find("input_dim");
  return rows != layer.config.end() && rows->is_number_integer() &&
         rows->get<int64_t>() > kPlainRowsMax;
}

void SplitIdInputs(ModelSpec& model, std::vector<size_t>& columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const Endpoint input = model.inputs[i];
    const Readers readers = ReadersOf(model, input.node);
    if (!readers.tables || !readers.others) continue;
    Split(model, input.node);
    model.inputs.push_back(input);
    model.inputs.back().node = input.node + 1;
    columns.push_back(columns[i]);
  }
}

}  // namespace paracord
