// A model with the values of a checkpoint: its variables are matched by name, and a batch is given
// those rows of tables that it reads. On the thread that computes.
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
  const CheckpointRows* rows = nullptr;  // of the tables without values, if there are any
};

// Returns the checkpoint's variables in the order of the model's; what is returned points to them.
// INVALID_ARGUMENT: the checkpoint has other variables.
absl::StatusOr<WholeVariables> MatchVariables(std::span<const VariableSpec> model,
                                              const StoredVariables& stored);

class ScoredCheckpoint {
 public:
  // `seed` is the job's, with which rows begin that a growing table lacks. The program and what
  // `whole` points to must live longer.
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
