#include "program/given_columns.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/json_fields.h"

namespace paracord {
namespace {

absl::Status Refuse(const Batch& batch, const char* what, const Column& column, size_t element,
                    const std::string& value, const char* advice = "") {
  const size_t each = column.values.size() / batch.examples;
  return absl::InvalidArgumentError(
      absl::StrCat(Where(batch, element / each), ": ", what,
                   column.name.empty() ? "" : absl::StrCat(" \"", column.name, "\""),
                   each == 1 ? "" : absl::StrCat(", element ", element % each, ","), " has ", value,
                   ", and the program wants int64", advice));
}

}  // namespace

absl::Status CheckOwnSettings(const Job& job) {
  Problems problems;
  const auto own = [&](const char* key) {
    problems.Add(key, "is the program's own affair: leave it out of the job");
  };
  if (job.accumulate > 1) own("accumulate");
  if (job.precision != "float32") own("precision");
  if (!job.loss_weights.by_output.empty()) own("loss_weights");
  if (!job.loss_weights.by_class.empty()) own("class_weight");
  return problems.ToStatus();
}

absl::Status CheckColumnCount(const char* what, size_t schema, size_t batch) {
  if (schema == batch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the batch has ", batch, " columns of ", what, ", the job's data ", schema));
}

absl::Status CheckGivenColumn(const char* what, const Column& schema, const Column& column,
                              uint32_t examples, bool whole) {
  uint64_t elements = examples;
  for (const uint64_t axis : schema.shape) elements *= axis;
  const std::string name = absl::StrCat(what, " \"", column.name, "\"");
  if (column.shape != schema.shape || column.values.size() != elements) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has another shape than before"));
  }
  if (!column.exact.empty() && !whole) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has the number ", DigitsOf(column, column.exact[0].element, column.exact[0].value),
        ", and float32 lacks some beyond 2^24: let the program want int64 of it"));
  }
  return absl::OkStatus();
}

absl::Status CheckNoFractions(const Batch& batch, const char* what, const Column& column) {
  const auto bad = std::ranges::find_if(column.values, [](float value) {
    return std::isfinite(value) && value != std::trunc(value);
  });
  if (bad == column.values.end()) return absl::OkStatus();
  return Refuse(batch, what, column, static_cast<size_t>(bad - column.values.begin()),
                absl::StrCat(*bad, ", which is no whole number"),
                " of it: give whole numbers, or let it take float32");
}

absl::Status ToWholeNumbers(const Batch& batch, const char* what, const Column& column,
                            std::vector<int64_t>& out) {
  RETURN_IF_ERROR(CheckNoFractions(batch, what, column));
  const std::optional<size_t> bad = WholeNumbers(column, out);
  if (bad.has_value()) {
    return Refuse(batch, what, column, *bad,
                  absl::StrCat(column.values[*bad], ", of which no whole number is certain"));
  }
  const ExactInteger* const beyond = FirstBeyondInt64(column);
  if (beyond == nullptr) return absl::OkStatus();
  return Refuse(batch, what, column, beyond->element,
                absl::StrCat(static_cast<uint64_t>(beyond->value), ", which is beyond int64"));
}

}  // namespace paracord
