// A program in a process that is evaluated here: the job's metrics, and its loss where the program
// evaluates none itself, of the outputs that it predicts.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "program/process_program.h"

namespace paracord {

// INVALID_ARGUMENT has one line for each loss or metric that does not fit the program's outputs and
// the data's targets.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeScoredProgram(
    const Job& job, const Batch& schema, std::unique_ptr<GradientProgram> program,
    std::vector<ProgramOutput> outputs);

}  // namespace paracord
