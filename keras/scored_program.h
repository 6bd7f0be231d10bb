// Evaluates a job's own program: computes the job's metrics, and the loss unless the program
// evaluates its own, from the predicted outputs.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/declaration.h"
#include "program/gradient_program.h"

namespace paracord {

// INVALID_ARGUMENT has a line for each loss or metric that does not fit the program's outputs and
// the data's targets.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeScoredProgram(
    const Job& job, const Batch& schema, std::unique_ptr<GradientProgram> program,
    std::vector<ProgramOutput> outputs);

}  // namespace paracord
