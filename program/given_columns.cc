#include "program/given_columns.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "config/json_fields.h"

namespace paracord {

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

absl::Status ToWholeNumbers(const Batch& batch, const Column& column, std::vector<int64_t>& out) {
  const auto refuse = [&](size_t element, const auto& value, const char* why) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(batch, element * batch.examples / column.values.size()), ": column \"",
                     column.name, "\" has ", value, why, ", and the program wants int64"));
  };
  const std::optional<size_t> bad = WholeNumbers(column, out);
  if (bad.has_value()) {
    return refuse(*bad, column.values[*bad], ", of which no whole number is certain");
  }
  const ExactInteger* const beyond = FirstBeyondInt64(column);
  if (beyond == nullptr) return absl::OkStatus();
  return refuse(beyond->element, static_cast<uint64_t>(beyond->value), ", which is beyond int64");
}

}  // namespace paracord
