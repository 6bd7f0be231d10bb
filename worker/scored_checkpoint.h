// A model with the values of a checkpoint, which predicts. The checkpoint's variables are matched
// with the model's by name. Used on the thread that computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "program/gradient_program.h"
#include "storage/checkpoint.h"
#include "worker/rows_for_batch.h"

namespace paracord {

// A checkpoint's variables in the manifest's order; ReadVariables reads `values` and `ids`.
struct StoredVariables {
  std::span<const VariableSpec> specs;
  std::span<const std::vector<float>> values;
  const VariableIds& ids;
  // Reads the rows of tables whose rows are not in `values`; null: all rows are in `values`.
  const CheckpointRows* rows = nullptr;
};

// Returns the checkpoint's variables in the model's order. The result points to the memory that
// `stored` points to. INVALID_ARGUMENT: checkpoint and model differ in a variable's name, shape or
// kind of table, or in the number of variables.
absl::StatusOr<WholeVariables> MatchVariables(std::span<const VariableSpec> model,
                                              const StoredVariables& stored);

class ScoredCheckpoint {
 public:
  // `seed`: the job's seed, for the initial values of rows that a growing table does not have yet.
  // The program, and the memory that `whole` points to, must outlive the result.
  static absl::StatusOr<ScoredCheckpoint> Make(GradientProgram& program,
                                               const WholeVariables& whole, uint64_t seed);

  // Calls GradientProgram::Predict for the batch with the checkpoint's values.
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch);

 private:
  ScoredCheckpoint(GradientProgram& program, RowsForBatch rows);

  GradientProgram* program_;
  RowsForBatch rows_;
};

}  // namespace paracord
