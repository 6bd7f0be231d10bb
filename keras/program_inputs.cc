#include "keras/program_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "keras/model_head.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

// Returns the number if whole and at most 2^24, float32's limit for exact integers.
std::optional<int64_t> WholeOf(float number) {
  constexpr float kMost = 1 << 24;
  if (!(number >= -kMost && number <= kMost) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

ProgramInputs::ProgramInputs(const Graph& graph, std::vector<Column> schema,
                             std::vector<size_t> columns, std::vector<bool> whole, int64_t examples)
    : graph_(graph),
      schema_(std::move(schema)),
      columns_(std::move(columns)),
      whole_(std::move(whole)),
      tables_(graph, columns_, examples) {}

absl::Status ProgramInputs::CheckShapes(const Batch& batch) const {
  if (batch.examples == 0) return absl::InvalidArgumentError("the batch has no examples");
  if (batch.inputs.size() != schema_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", batch.inputs.size(),
                                                   " inputs, the model was built for ",
                                                   schema_.size()));
  }
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const Column& column = batch.inputs[i];
    const auto each = static_cast<uint64_t>(Elements(ShapeOf(schema_[i])));
    if (column.shape != schema_[i].shape || column.values.size() != batch.examples * each) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, " of the batch has examples of shape ", ShapeName(ShapeOf(column)),
          ", the model was built for ", ShapeName(ShapeOf(schema_[i]))));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramInputs::CheckIds(const Batch& batch) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = batch.inputs[columns_[i]];
    const std::vector<float>& ids = column.values;
    const auto refuse = [&](size_t element, const auto& number, const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(batch, element * batch.examples / ids.size()), ": id ", number, what));
    };
    if (rows_ != nullptr && !rows_->numbers[i].empty()) continue;  // checked by RowsOf
    if (tables_.growing(i)) continue;                              // checked by RowsOf later
    const std::optional<int64_t> below = graph_.ids_below(i);
    if (below.value_or(0) > kPlainRowsMax) continue;  // checked by Values
    if (below.has_value()) {
      const std::string what = absl::StrCat(" is not in the model's embedding, 0 to ", *below - 1);
      if (!column.exact.empty()) {
        const auto& [element, whole] = column.exact[0];
        return refuse(element, DigitsOf(column, element, whole), what);
      }
      for (size_t k = 0; k < ids.size(); ++k) {
        if (ids[k] >= 0 && ids[k] < static_cast<float>(*below)) continue;
        // All digits of a whole number, and six of another.
        if (const std::optional<int64_t> whole = WholeOf(ids[k])) return refuse(k, *whole, what);
        return refuse(k, ids[k], what);
      }
    } else if (whole_[i]) {
      const auto rounded = std::ranges::find_if(column.exact, [&](const ExactInteger& each) {
        const bool beyond = each.value < 0 && ids[each.element] > 0;  // int64
        const double whole = beyond ? static_cast<double>(static_cast<uint64_t>(each.value))
                                    : static_cast<double>(each.value);
        return static_cast<double>(ids[each.element]) != whole;
      });
      if (rounded == column.exact.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          Where(batch, rounded->element * batch.examples / ids.size()), ": ",
          DigitsOf(column, rounded->element, rounded->value),
          " is a whole number beyond 2^24, which float32 does not have; an Embedding or a "
          "preprocessing layer takes it as it is, and an input of dtype float32 rounds it"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const float>> ProgramInputs::Values(const Batch& batch, size_t input) {
  const Column& column = batch.inputs[columns_[input]];
  if (rows_ != nullptr && !rows_->numbers[input].empty()) {
    if (rows_->numbers[input].size() == column.values.size()) return rows_->numbers[input];
    return absl::InternalError("the rows of tables are those of another batch");
  }
  const int64_t rows = graph_.ids_below(input).value_or(0);
  if (rows <= kPlainRowsMax) return column.values;
  const auto where = [&](size_t element) {
    return Where(batch, element * batch.examples / column.values.size());
  };
  if (const auto bad = WholeNumbers(column, whole_numbers_); bad.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where(*bad), ": ", WhyNoId(column.values[*bad])));
  }
  row_ids_.resize(columns_.size());
  std::vector<float>& ids = row_ids_[input];
  ids.resize(whole_numbers_.size());
  for (size_t k = 0; k < whole_numbers_.size(); ++k) {
    if (whole_numbers_[k] < 0 || whole_numbers_[k] >= rows) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(k), ": id ", DigitsOf(column, k, whole_numbers_[k]),
                       " is not in the model's embedding, 0 to ", rows - 1));
    }
    ids[k] = RowToFloat(whole_numbers_[k], rows);
  }
  return ids;
}

std::vector<int64_t> ProgramInputs::UseRows(std::shared_ptr<const NumberedRows> rows) {
  rows_ = std::move(rows);
  std::vector<int64_t> counts;
  for (size_t v = 0; rows_ != nullptr && v < rows_->ids.size(); ++v) {
    counts.push_back(static_cast<int64_t>(rows_->ids[v].size()));
  }
  return counts;
}

double ProgramInputs::NanUnlessFinite(const Batch& batch) const {
  const bool finite = std::all_of(columns_.begin(), columns_.end(), [&](size_t column) {
    return AllFinite(batch.inputs[column].values);
  });
  return finite ? 0 : std::numeric_limits<double>::quiet_NaN();
}

void ProgramInputs::HideRows(const Batch& batch, std::vector<float>& values) const {
  const size_t each = values.size() / batch.examples;
  for (const size_t column : columns_) {
    const std::span<const float> input(batch.inputs[column].values);
    const size_t size = input.size() / batch.examples;
    for (size_t e = 0; e < batch.examples; ++e) {
      if (AllFinite(input.subspan(e * size, size))) continue;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(e * each), each,
                  std::numeric_limits<float>::quiet_NaN());
    }
  }
}

}  // namespace paracord
