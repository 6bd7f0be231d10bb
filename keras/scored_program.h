// Evaluates a job's own program from the outputs that the program predicts: computes the job's
// metrics, and the job's loss unless the program evaluates a loss.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/declaration.h"
#include "program/gradient_program.h"

namespace paracord {

// INVALID_ARGUMENT has a line for each loss, metric and `stop_when` that does not fit the program's
// outputs and the data's targets.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeScoredProgram(
    const Job& job, const Batch& schema, std::unique_ptr<GradientProgram> program,
    std::vector<ProgramOutput> outputs);

}  // namespace paracord
