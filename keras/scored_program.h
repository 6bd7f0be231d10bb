// Evaluates a program of a job: computes the job's metrics of the outputs that the program
// predicts, and also the job's loss, unless the program evaluates metrics of its own.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/declaration.h"
#include "program/gradient_program.h"

namespace paracord {

// `outputs` are the outputs that `program` declares. INVALID_ARGUMENT names the loss, the metrics
// or `stop_when` that do not fit these outputs and the data's targets.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeScoredProgram(
    const Job& job, const Batch& schema, std::unique_ptr<GradientProgram> program,
    std::vector<ProgramOutput> outputs);

}  // namespace paracord
