// Tables in a graph: variables of which a run may have only some rows.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/status_macros.h"
#include "config/tables.h"
#include "keras/graph.h"
#include "keras/layers/layers.h"
#include "keras/layers/table_layer.h"

namespace paracord {
namespace {

// Layers unaffected, in result and gradient, by steps hidden by their masks.
constexpr std::array<std::string_view, 5> kLeaveOut = {"GlobalAveragePooling1D", "LSTM", "GRU",
                                                       "SimpleRNN", "Bidirectional"};

}  // namespace

void Graph::SetTable(const std::string& layer, const TableSpec& table, uint64_t shards) {
  for (const auto& made : layers_) {
    auto* const of_rows = dynamic_cast<TableLayer*>(made.get());
    const auto first = first_variable_.find(made.get());
    if (made->name() != layer || of_rows == nullptr || first == first_variable_.end()) continue;
    VariableSpec& variable = variables_[first->second];
    if (!variable.trainable()) continue;
    *variable.mutable_table() = table;
    if (table.kind() != TableSpec::GROWING) continue;
    MakeGrowing(variable, shards);
    of_rows->Grow();
  }
}

// Returns the input whose ids make a mask that hides the steps of `steps` from all readers; nullopt
// without one.
std::optional<size_t> Graph::MaskHiding(Value steps) const {
  const size_t storage = nodes_[steps].storage;
  const auto same = [&](Value value) { return value != kNone && nodes_[value].storage == storage; };
  const auto read = [&](const PenaltyOnValue& on) { return same(on.value); };
  if (std::ranges::any_of(outputs_, same) || std::ranges::any_of(activities_, read)) {
    return std::nullopt;
  }
  std::optional<size_t> hiding;
  for (const Node& node : nodes_) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!same(node.inputs[i])) continue;
      const bool leaves_out =
          std::ranges::find(kLeaveOut, node.layer->class_name()) != kLeaveOut.end();
      const size_t mask = i + node.data_inputs;
      if (!leaves_out || i != 0 || mask >= node.inputs.size()) return std::nullopt;
      const Value of = node.inputs[mask];
      if (of == kNone || dynamic_cast<const IdMask*>(nodes_[of].layer) == nullptr) {
        return std::nullopt;
      }
      const std::optional<size_t> ids = InputOf(nodes_[of].inputs[0]);
      if (!ids.has_value() || ids != hiding.value_or(*ids)) return std::nullopt;
      hiding = ids;
    }
  }
  return hiding;
}

Graph::IdReader Graph::ReaderOf(Value reader) const {
  const Node& node = nodes_[reader];
  IdReader found{*InputOf(node.inputs[0])};
  found.mask = MaskHiding(reader);
  // The weight of a single id is left out by a mean.
  const bool weighted = node.data_inputs > 1 && !node.input_shapes[0].empty();
  if (weighted) found.weights = InputOf(node.inputs[1]);
  return found;
}

Graph::TableInputs Graph::InputsOfTable(size_t variable) const {
  TableInputs found;
  for (Value value = 0; value < nodes_.size(); ++value) {
    const Node& node = nodes_[value];
    if (node.layer == nullptr || node.layer->variables().empty()) continue;
    if (node.first_variable != variable) continue;
    const std::optional<size_t> input = InputOf(node.inputs[0]);
    if (!input.has_value()) continue;
    found.readers.push_back(ReaderOf(value));
    if (std::ranges::find(found.inputs, *input) != found.inputs.end()) continue;
    found.inputs.push_back(*input);
    found.ids += Elements(node.input_shapes[0]);
  }
  std::ranges::sort(found.inputs);
  return found;
}

void Graph::TakeIdMasks() {
  const auto reads_ids = [](const Node& node) {
    return node.layer != nullptr && dynamic_cast<const TableLayer*>(node.layer) != nullptr;
  };
  for (Node& node : nodes_) {
    const auto activation = node.layer == nullptr ? std::nullopt : node.layer->activation();
    if (!activation.has_value() || activation->kind != ActivationKind::kNotEqual) continue;
    if (activation->alpha != 0 || node.ends_in.has_value()) continue;
    if (!InputOf(node.inputs[0]).has_value()) continue;
    const auto reads_the_same = [&](const Node& other) {
      return reads_ids(other) && InputOf(other.inputs[0]) == InputOf(node.inputs[0]);
    };
    if (std::ranges::none_of(nodes_, reads_the_same)) continue;
    layers_.push_back(MakeIdMask(*node.layer));
    node.layer = layers_.back().get();
  }
}

void Graph::UseRows(std::vector<int64_t> rows) {
  rows_there_ = std::move(rows);
  for (const auto& layer : layers_) {
    auto* const table = dynamic_cast<TableLayer*>(layer.get());
    const auto first = first_variable_.find(layer.get());
    if (table == nullptr || first == first_variable_.end()) continue;
    const bool some = !rows_there_.empty() && variables_[first->second].has_table();
    table->UseRows(some ? rows_there_[first->second] : TableLayer::kAllRows);
  }
}

absl::Status Graph::ReserveAllRows() {
  UseRows({});
  const int64_t planned = scratch_.parameters;
  PlanScratch();
  if (scratch_.parameters == planned || scratch_.capacity == 0) return absl::OkStatus();
  absl::StatusOr<DeviceArray> data =
      ops_.Allocate(RoundUp(scratch_.capacity * scratch_.inputs) + scratch_.parameters);
  if (!data.ok()) {
    scratch_.parameters = planned;  // as many as the memory that there is holds
    return data.status();
  }
  scratch_.data = *std::move(data);
  return absl::OkStatus();
}

int64_t Graph::FloatsOf(size_t variable) const {
  const VariableSpec& spec = variables_[variable];
  const int64_t all = VariableElements(spec);
  if (!spec.has_table() || rows_there_.empty()) return all;
  return all / static_cast<int64_t>(spec.shape(0)) * rows_there_[variable];
}

}  // namespace paracord
