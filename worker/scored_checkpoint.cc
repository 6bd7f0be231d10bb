#include "worker/scored_checkpoint.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"

namespace paracord {

absl::StatusOr<WholeVariables> MatchVariables(std::span<const VariableSpec> model,
                                              const StoredVariables& stored) {
  const std::span<const VariableSpec> variables = stored.specs;
  WholeVariables matched;
  matched.rows = stored.rows;
  for (const VariableSpec& variable : model) {
    const auto found = std::find_if(
        variables.begin(), variables.end(),
        [&](const VariableSpec& candidate) { return candidate.name() == variable.name(); });
    if (found == variables.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the checkpoint has no variable ", variable.name(), " of the model"));
    }
    if (!std::equal(found->shape().begin(), found->shape().end(), variable.shape().begin(),
                    variable.shape().end())) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint's variable ", variable.name(),
                                                     " has another shape than the model's"));
    }
    if (IsGrowing(*found) != IsGrowing(variable)) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint's variable ", variable.name(),
                                                     " is another kind of table than the model's"));
    }
    const auto place = static_cast<size_t>(found - variables.begin());
    matched.places.push_back(place);
    matched.values.emplace_back(stored.values[place]);
    matched.ids.push_back(place < stored.ids.size() ? std::span(stored.ids[place])
                                                    : std::span<const uint64_t>());
  }
  if (matched.values.size() == variables.size()) return matched;
  return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", variables.size(),
                                                 " variables, the model ", matched.values.size()));
}

ScoredCheckpoint::ScoredCheckpoint(GradientProgram& program, RowsForBatch rows)
    : program_(&program), rows_(std::move(rows)) {}

absl::StatusOr<ScoredCheckpoint> ScoredCheckpoint::Make(GradientProgram& program,
                                                        const WholeVariables& whole,
                                                        uint64_t seed) {
  ASSIGN_OR_RETURN(RowsForBatch rows, RowsForBatch::Make(program.variables(), whole, seed));
  return ScoredCheckpoint(program, std::move(rows));
}

absl::StatusOr<std::vector<Column>> ScoredCheckpoint::Predict(const Batch& batch) {
  if (!rows_.any()) return program_->Predict(batch, rows_.whole());
  ASSIGN_OR_RETURN(const std::shared_ptr<const TableRows> rows, program_->RowsOf(batch));
  program_->UseRows(rows);
  ASSIGN_OR_RETURN(const ConstTensors values, rows_.Of(*rows));
  return program_->Predict(batch, values);
}

}  // namespace paracord
