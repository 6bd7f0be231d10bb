// A program of the job's own that is evaluated here: the job's metrics, and its loss where the
// program evaluates none itself, of the outputs that it predicts.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/declaration.h"
#include "program/gradient_program.h"

namespace paracord {

// INVALID_ARGUMENT has one line for each loss or metric that does not fit the program's outputs and
// the data's targets.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeScoredProgram(
    const Job& job, const Batch& schema, std::unique_ptr<GradientProgram> program,
    std::vector<ProgramOutput> outputs);

}  // namespace paracord
