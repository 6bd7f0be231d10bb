// A model with the values of a checkpoint. Variables are matched by name, and each batch is given
// the rows of tables that the batch reads. Used on the thread that computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "program/gradient_program.h"
#include "storage/checkpoint.h"
#include "worker/rows_for_batch.h"

namespace paracord {

// A checkpoint's variables as ReadVariables (storage) returns them, in the manifest's order.
struct StoredVariables {
  std::span<const VariableSpec> specs;
  std::span<const std::vector<float>> values;
  const VariableIds& ids;
  // Reads rows of the tables that are not in `values`; null: all tables are in `values`.
  const CheckpointRows* rows = nullptr;
};

// Returns the checkpoint's variables in the model's order. The result points to the memory that
// `stored` points to. INVALID_ARGUMENT: the checkpoint's variables are not those of the model.
absl::StatusOr<WholeVariables> MatchVariables(std::span<const VariableSpec> model,
                                              const StoredVariables& stored);

class ScoredCheckpoint {
 public:
  // `seed`: the job's, for the initial values of rows that a growing table lacks. The program, and
  // the memory that `whole` points to, must outlive the result. Errors are those of RowsForBatch.
  static absl::StatusOr<ScoredCheckpoint> Make(GradientProgram& program,
                                               const WholeVariables& whole, uint64_t seed);

  // Returns GradientProgram::Predict for the batch, with the checkpoint's values.
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch);

 private:
  ScoredCheckpoint(GradientProgram& program, RowsForBatch rows);

  GradientProgram* program_;
  RowsForBatch rows_;
};

}  // namespace paracord
