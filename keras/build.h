// Builds gradient programs from Keras model files. Pure, except for the device's memory; one
// thread.
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

// Builds the job's model for data of this schema on the device of `ops`. The error has one line for
// each problem of the model, the losses and the metrics; a line names the layer and says what is
// supported.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildKerasProgram(const Job& job,
                                                                   const Batch& schema,
                                                                   std::unique_ptr<Ops> ops);

// Returns the variables of the job's model; none if their shapes depend on the data.
std::vector<VariableSpec> DeclaredVariables(const Job& job, std::unique_ptr<Ops> ops);
// Adds, by variable, the most table rows that a training batch can read.
struct DeclaredModel {
  std::vector<VariableSpec> variables;
  std::vector<uint64_t> rows;
};
DeclaredModel Declare(const Job& job, std::unique_ptr<Ops> ops);

// Reports the problems of BuildKerasProgram visible without data.
absl::Status CheckKerasModel(const Job& job, std::unique_ptr<Ops> ops);

}  // namespace paracord
