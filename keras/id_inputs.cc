#include "keras/id_inputs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tensor/row_ids.h"

namespace paracord {
namespace {

// Kinds of ids by reader: plain ids, ids of a huge embedding, or, from kTables on, ids of a group
// of tables with equal inputs.
constexpr size_t kIds = 0, kLarge = 1, kTables = 2;

bool IsLargeLayer(const LayerSpec& layer) {
  if (!LooksUpIds(layer)) return false;
  const auto rows = layer.config.find("input_dim");
  return rows != layer.config.end() && rows->is_number_integer() &&
         rows->get<int64_t>() > kPlainRowsMax;
}

// Whether the node is `ids != 0`, as Keras 3 writes the mask of an Embedding with mask_zero.
bool IsIdMask(const ModelSpec& model, const NodeSpec& node) {
  if (node.constant.has_value() || node.inputs.size() != 1) return false;
  const LayerSpec& layer = model.layers[node.layer];
  const auto is_zero = [](const nlohmann::json& arg) { return arg.is_number() && arg == 0; };
  return layer.operation && layer.class_name == "NotEqual" && node.args.size() == 2 &&
         std::ranges::any_of(node.args, is_zero);
}

// By layer.
using Kinds = std::map<size_t, size_t>;

Kinds KindsOf(const ModelSpec& model, const TableLayers& tables) {
  std::map<size_t, std::set<size_t>> inputs;  // keyed by table
  for (const NodeSpec& node : model.nodes) {
    if (IsInput(node) || node.constant.has_value() || !tables.contains(node.layer)) continue;
    inputs[node.layer].insert(node.inputs[0]);
  }
  Kinds kinds;
  // With all rows present, ids of huge embeddings are encoded differently. Ids of growing tables
  // are numbered shard by shard.
  std::map<std::tuple<std::set<size_t>, bool, uint64_t>, size_t> groups;
  for (const auto& [layer, read] : inputs) {
    const uint64_t shards = tables.at(layer).shards;
    const bool large = shards == 0 && IsLargeLayer(model.layers[layer]);
    const std::tuple group(read, large, shards);
    kinds[layer] = groups.emplace(group, kTables + groups.size()).first->second;
  }
  Kinds masks;
  for (const NodeSpec& node : model.nodes) {
    if (!IsIdMask(model, node)) continue;
    std::set<size_t> beside;  // kinds of the ids' readers
    for (const NodeSpec& reader : model.nodes) {
      const bool reads = !reader.inputs.empty() && reader.inputs[0] == node.inputs[0];
      if (reads && kinds.contains(reader.layer)) beside.insert(kinds.at(reader.layer));
      if (reads && !kinds.contains(reader.layer) && IsLargeTable(model, reader)) {
        beside.insert(kLarge);
      }
    }
    if (!beside.empty()) masks.emplace(node.layer, *beside.rbegin());
  }
  kinds.merge(masks);
  return kinds;
}

// The kind of the node's tensor number `place`.
size_t KindOf(const ModelSpec& model, const NodeSpec& node, size_t place, const Kinds& kinds) {
  if (place > 0) return kIds;  // weights of the ids
  if (const auto table = kinds.find(node.layer); table != kinds.end()) return table->second;
  return IsLargeTable(model, node) ? kLarge : kIds;
}

std::set<size_t> KindsReading(const ModelSpec& model, size_t input, const Kinds& kinds) {
  std::set<size_t> found;
  for (const NodeSpec& node : model.nodes) {
    for (size_t place = 0; place < node.inputs.size(); ++place) {
      if (node.inputs[place] == input) found.insert(KindOf(model, node, place, kinds));
    }
    const auto masks = [&](const auto& mask) { return mask.second == input; };
    if (std::ranges::any_of(node.masks, masks)) found.insert(kIds);
  }
  const auto gives = [&](const Endpoint& output) { return output.node == input; };
  if (std::ranges::any_of(model.outputs, gives)) found.insert(kIds);
  return found;
}

// Inserts a copy of the input behind the original, for the readers of a kind.
void Split(ModelSpec& model, size_t input, size_t kind, const Kinds& kinds) {
  const size_t copy = input + 1;
  const auto move = [&](size_t& node) { node += node >= copy ? 1 : 0; };
  for (NodeSpec& node : model.nodes) {
    for (size_t place = 0; place < node.inputs.size(); ++place) {
      size_t& from = node.inputs[place];
      if (from == input && KindOf(model, node, place, kinds) == kind) {
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
  return !node.constant.has_value() && IsLargeLayer(model.layers[node.layer]);
}

void SplitIdInputs(ModelSpec& model, const TableLayers& tables, std::vector<size_t>& columns) {
  const Kinds kinds = KindsOf(model, tables);
  const size_t given = columns.size();
  for (size_t i = 0; i < given; ++i) {
    std::set<size_t> reading = KindsReading(model, model.inputs[i].node, kinds);
    if (!reading.empty()) reading.erase(reading.begin());  // the first kind keeps the input itself
    for (const size_t kind : reading) {
      const Endpoint input = model.inputs[i];
      Split(model, input.node, kind, kinds);
      model.inputs.push_back(input);
      model.inputs.back().node = input.node + 1;
      columns.push_back(columns[i]);
    }
  }
}

}  // namespace paracord
