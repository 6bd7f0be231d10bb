#include "worker/rows_for_batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"

namespace paracord {

absl::StatusOr<RowsForBatch> RowsForBatch::Make(std::span<const VariableSpec> variables,
                                                const WholeVariables& whole, uint64_t seed) {
  RowsForBatch rows;
  rows.whole_ = whole;
  for (size_t v = 0; v < variables.size(); ++v) {
    const VariableSpec& variable = variables[v];
    Table& table = rows.tables_.emplace_back();
    table.is_table = variable.has_table();
    table.width = RowElements(variable);
    if (whole.rows != nullptr && whole.rows->Has(whole.places[v])) {
      if (!table.is_table) {
        return absl::InvalidArgumentError(absl::StrCat(
            variable.name(), " is a table too large for --memory-limit, and the model ",
            "computes with all its rows: see `tables` of the job"));
      }
      table.in_files = whole.places[v];
      rows.any_ = true;
    }
    if (!IsGrowing(variable)) continue;
    rows.any_ = true;
    ASSIGN_OR_RETURN(table.first, MakeRowInitializer(variable, seed));
  }
  rows.gathered_.resize(variables.size());
  return rows;
}

absl::Status RowsForBatch::ReadRows(const Table& table, std::span<const uint64_t> ids,
                                    std::span<float> to) {
  RETURN_IF_ERROR(whole_.rows->Read(*table.in_files, ids, to, there_));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (there_[i] == 0) table.first(ids[i], to.subspan(i * table.width, table.width));
  }
  return absl::OkStatus();
}

void RowsForBatch::CopyRows(size_t variable, std::span<const uint64_t> ids,
                            std::span<float> to) const {
  const Table& table = tables_[variable];
  const uint64_t width = table.width;
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint64_t id = ids[i];
    const std::span<float> row = to.subspan(i * width, width);
    uint64_t place = id;
    if (table.first) {
      const std::span<const uint64_t> known = whole_.ids[variable];
      const auto found = std::ranges::lower_bound(known, id);
      if (found == known.end() || *found != id) {
        table.first(id, row);
        continue;
      }
      place = static_cast<uint64_t>(found - known.begin());
    }
    std::ranges::copy(whole_.values[variable].subspan(place * width, width), row.begin());
  }
}

absl::StatusOr<ConstTensors> RowsForBatch::Of(const TableRows& rows) {
  spans_ = whole_.values;
  for (size_t v = 0; v < tables_.size(); ++v) {
    if (!tables_[v].is_table) continue;
    std::vector<float>& to = gathered_[v];
    to.resize(rows.ids[v].size() * tables_[v].width);
    if (tables_[v].in_files.has_value()) {
      RETURN_IF_ERROR(ReadRows(tables_[v], rows.ids[v], to));
    } else {
      CopyRows(v, rows.ids[v], to);
    }
    spans_[v] = to;
  }
  return spans_;
}

}  // namespace paracord
