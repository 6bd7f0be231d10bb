// Tables in a graph: variables of which a run may have some rows alone.
#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "config/tables.h"
#include "keras/graph.h"
#include "keras/layers/table_layer.h"

namespace paracord {

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

Graph::TableInputs Graph::InputsOfTable(size_t variable) const {
  TableInputs found;
  for (const Node& node : nodes_) {
    if (node.layer == nullptr || node.layer->variables().empty()) continue;
    if (node.first_variable != variable) continue;
    const std::optional<size_t> input = storages_[nodes_[node.inputs[0]].storage].input;
    if (!input.has_value() || std::ranges::find(found.inputs, *input) != found.inputs.end()) {
      continue;
    }
    found.inputs.push_back(*input);
    found.ids += Elements(node.input_shapes[0]);
  }
  std::ranges::sort(found.inputs);
  return found;
}

void Graph::UseRows(std::vector<int64_t> rows) {
  rows_there_ = std::move(rows);
  for (const auto& layer : layers_) {
    auto* const table = dynamic_cast<TableLayer*>(layer.get());
    const auto first = first_variable_.find(layer.get());
    if (table == nullptr || first == first_variable_.end()) continue;
    table->UseRows(rows_there_.empty() ? 0 : rows_there_[first->second]);
  }
}

absl::Status Graph::ReserveAllRows() {
  UseRows({});
  const int64_t planned = scratch_.parameters;
  PlanScratch();
  if (scratch_.parameters == planned || capacity_ == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(scratch_.data,
                   ops_.Allocate(RoundUp(capacity_ * scratch_.inputs) + scratch_.parameters));
  return absl::OkStatus();
}

int64_t Graph::FloatsOf(size_t variable) const {
  const VariableSpec& spec = variables_[variable];
  const int64_t all = VariableElements(spec);
  if (!spec.has_table() || rows_there_.empty()) return all;
  return all / static_cast<int64_t>(spec.shape(0)) * rows_there_[variable];
}

}  // namespace paracord
