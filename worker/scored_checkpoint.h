// A model with the values of a checkpoint. Variables are matched by name, and each batch is given
// the rows of tables that the batch reads. On the thread that computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "program/gradient_program.h"
#include "storage/checkpoint.h"
#include "worker/rows_for_batch.h"

namespace paracord {

// A checkpoint's variables as ReadVariables gives them, in the manifest's order.
struct StoredVariables {
  std::span<const VariableSpec> specs;
  std::span<const std::vector<float>> values;
  const VariableIds& ids;
  const CheckpointRows* rows = nullptr;  // for tables without `values`; null: no table lacks values
};

// Returns the checkpoint's variables in the model's order; the result points into `stored`.
// INVALID_ARGUMENT: the checkpoint has other variables than the model.
absl::StatusOr<WholeVariables> MatchVariables(std::span<const VariableSpec> model,
                                              const StoredVariables& stored);

class ScoredCheckpoint {
 public:
  // `seed`: the job's, for the initial values of rows that a growing table lacks. The program and
  // the memory that `whole` points to must live longer.
  static absl::StatusOr<ScoredCheckpoint> Make(GradientProgram& program,
                                               const WholeVariables& whole, uint64_t seed);

  // Returns the program's outputs for the batch, as GradientProgram::Predict.
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch);

 private:
  ScoredCheckpoint(GradientProgram& program, RowsForBatch rows);

  GradientProgram* program_;
  RowsForBatch rows_;
};

}  // namespace paracord
