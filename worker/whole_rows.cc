#include "worker/whole_rows.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "config/partitions.h"

namespace paracord {

absl::StatusOr<RowsOfWhole> RowsOfWhole::Make(std::span<const VariableSpec> variables,
                                              const WholeVariables& whole, uint64_t seed) {
  RowsOfWhole rows;
  rows.whole_ = whole;
  for (const VariableSpec& variable : variables) {
    Table& table = rows.tables_.emplace_back();
    table.is_table = variable.has_table();
    table.width = RowElements(variable);
    if (!IsGrowing(variable)) continue;
    rows.any_ = true;
    ASSIGN_OR_RETURN(table.first, MakeRowInitializer(variable, seed));
  }
  rows.gathered_.resize(variables.size());
  return rows;
}

ConstTensors RowsOfWhole::Of(const TableRows& rows) {
  spans_ = whole_.values;
  for (size_t v = 0; v < tables_.size(); ++v) {
    const auto& [is_table, width, first] = tables_[v];
    if (!is_table) continue;
    std::vector<float>& to = gathered_[v];
    to.resize(rows.ids[v].size() * width);
    for (size_t i = 0; i < rows.ids[v].size(); ++i) {
      const uint64_t id = rows.ids[v][i];
      const std::span<float> row = std::span(to).subspan(i * width, width);
      uint64_t place = id;
      if (first) {
        const auto found = std::ranges::lower_bound(whole_.ids[v], id);
        if (found == whole_.ids[v].end() || *found != id) {
          first(id, row);
          continue;
        }
        place = static_cast<uint64_t>(found - whole_.ids[v].begin());
      }
      std::ranges::copy(whole_.values[v].subspan(place * width, width), row.begin());
    }
    spans_[v] = to;
  }
  return spans_;
}

}  // namespace paracord
