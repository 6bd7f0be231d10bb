// Feeds a batch's columns to the graph: whole numbers are checked, and ids of large tables are
// converted to the form that the graph takes (row_ids.h).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/keras_program.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

// Returns the number if it is whole and not beyond 2^24, up to which float32 tells all whole
// numbers apart.
std::optional<int64_t> WholeOf(float number) {
  constexpr float kMost = 1 << 24;
  if (!(number >= -kMost && number <= kMost) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

// Checks ids that go straight into an embedding, and whole numbers that float32 cannot represent.
absl::Status KerasProgram::CheckIds(const Batch& batch) const {
  for (size_t i = 0; i < input_columns_.size(); ++i) {
    const Column& column = batch.inputs[input_columns_[i]];
    const std::vector<float>& ids = column.values;
    const auto refuse = [&](size_t element, const auto& number, const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(batch, element * batch.examples / ids.size()), ": id ", number, what));
    };
    if (rows_ != nullptr && !rows_->numbers[i].empty()) continue;  // RowsOf looked at them
    const std::optional<int64_t> below = graph_->ids_below(i);
    if (below.value_or(0) > kPlainRowsMax) continue;  // InputValues looks at them
    if (below.has_value()) {
      const std::string what = absl::StrCat(" is not in the model's embedding, 0 to ", *below - 1);
      if (!column.exact.empty()) {
        return refuse(column.exact[0].element, column.exact[0].value, what);
      }
      for (size_t k = 0; k < ids.size(); ++k) {
        if (ids[k] >= 0 && ids[k] < static_cast<float>(*below)) continue;
        // All digits of a whole number, and six of another.
        if (const std::optional<int64_t> whole = WholeOf(ids[k])) return refuse(k, *whole, what);
        return refuse(k, ids[k], what);
      }
    } else if (whole_inputs_[i]) {
      const auto rounded = std::ranges::find_if(column.exact, [&](const ExactInteger& each) {
        return static_cast<double>(ids[each.element]) != static_cast<double>(each.value);
      });
      if (rounded == column.exact.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          Where(batch, rounded->element * batch.examples / ids.size()), ": ", rounded->value,
          " is a whole number beyond 2^24, which float32 does not have; an Embedding or a "
          "preprocessing layer takes it as it is, and an input of dtype float32 rounds it"));
    }
  }
  return absl::OkStatus();
}

// Returns the values of an input in the form that the graph takes.
absl::StatusOr<std::span<const float>> KerasProgram::InputValues(const Batch& batch, size_t input) {
  const Column& column = batch.inputs[input_columns_[input]];
  if (rows_ != nullptr && !rows_->numbers[input].empty()) {
    if (rows_->numbers[input].size() == column.values.size()) return rows_->numbers[input];
    return absl::InternalError("the rows of tables are those of another batch");
  }
  const int64_t rows = graph_->ids_below(input).value_or(0);
  if (rows <= kPlainRowsMax) return column.values;
  const auto where = [&](size_t element) {
    return Where(batch, element * batch.examples / column.values.size());
  };
  if (const auto bad = WholeNumbers(column, whole_); bad.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(where(*bad), ": id ", column.values[*bad],
                                                   " is no whole number that float32 tells from "
                                                   "others; give it as an integer"));
  }
  row_ids_.resize(input_columns_.size());
  std::vector<float>& ids = row_ids_[input];
  ids.resize(whole_.size());
  for (size_t k = 0; k < whole_.size(); ++k) {
    if (whole_[k] < 0 || whole_[k] >= rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          where(k), ": id ", whole_[k], " is not in the model's embedding, 0 to ", rows - 1));
    }
    ids[k] = RowToFloat(whole_[k], rows);
  }
  return ids;
}

absl::StatusOr<std::shared_ptr<const TableRows>> KerasProgram::RowsOf(const Batch& batch) {
  if (!table_ids_->any()) return nullptr;
  RETURN_IF_ERROR(CheckShapes(batch));
  ASSIGN_OR_RETURN(std::shared_ptr<const NumberedRows> rows, table_ids_->RowsOf(batch));
  return rows;
}

void KerasProgram::UseRows(std::shared_ptr<const TableRows> rows) {
  rows_ = std::dynamic_pointer_cast<const NumberedRows>(rows);
  std::vector<int64_t> counts;
  for (size_t v = 0; rows_ != nullptr && v < rows_->ids.size(); ++v) {
    counts.push_back(static_cast<int64_t>(rows_->ids[v].size()));
  }
  graph_->UseRows(std::move(counts));
}

absl::Status KerasProgram::LookAt(const Batch& batch, LookupCounts& /*counts*/) {
  RETURN_IF_ERROR(CheckBatch(batch, /*with_targets=*/true));
  for (size_t i = 0; i < input_columns_.size(); ++i) {
    RETURN_IF_ERROR(InputValues(batch, i).status());
  }
  return absl::OkStatus();
}

}  // namespace paracord
