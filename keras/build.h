// Builds gradient programs from Keras model files. Does no I/O and keeps no state; a program
// allocates memory of its device.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "tensor/ops.h"

namespace paracord {

// Builds the job's model on the device of `ops`, for data with the columns of `schema`.
// INVALID_ARGUMENT has one line for each problem of the model, the losses and the metrics; the line
// of a layer's problem names the layer and says what is supported. RESOURCE_EXHAUSTED: the device
// has too little memory for the job's batches.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildKerasProgram(const Job& job,
                                                                   const Batch& schema,
                                                                   std::unique_ptr<Ops> ops);

// Returns the variables of the job's model; none if the model cannot be built without data.
std::vector<VariableSpec> DeclaredVariables(const Job& job, std::unique_ptr<Ops> ops);
// The variables of a job's model, as DeclaredVariables returns them, and for each variable the most
// table rows that a training batch can read (0: the variable is no table).
struct DeclaredModel {
  std::vector<VariableSpec> variables;
  std::vector<uint64_t> rows;
};
DeclaredModel Declare(const Job& job, std::unique_ptr<Ops> ops);

// Returns INVALID_ARGUMENT with the problems of BuildKerasProgram that are visible without data.
absl::Status CheckKerasModel(const Job& job, std::unique_ptr<Ops> ops);

}  // namespace paracord
