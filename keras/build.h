// Builds gradient programs from the Keras model in a job. Does no I/O and keeps no state; a program
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
// INVALID_ARGUMENT has a line for each problem that was found, such as an unsupported layer, loss
// or metric, or data that do not fit the model; the line of a layer's problem names the layer.
// RESOURCE_EXHAUSTED: the device has too little memory for the job's batches.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildKerasProgram(const Job& job,
                                                                   const Batch& schema,
                                                                   std::unique_ptr<Ops> ops);

// Returns the variables of the job's model; none if the model cannot be read, or cannot be built
// without the shapes of the data.
std::vector<VariableSpec> DeclaredVariables(const Job& job, std::unique_ptr<Ops> ops);
// `variables` are the result of DeclaredVariables. `rows` has for each variable the most table rows
// that a training batch can read, or 0 if the variable is no table.
struct DeclaredModel {
  std::vector<VariableSpec> variables;
  std::vector<uint64_t> rows;
};
DeclaredModel Declare(const Job& job, std::unique_ptr<Ops> ops);

// Returns INVALID_ARGUMENT with a line for each problem of BuildKerasProgram that can be found
// without data; OK if there is none.
absl::Status CheckKerasModel(const Job& job, std::unique_ptr<Ops> ops);

}  // namespace paracord
