// Model parallelism: a model in stages of neighbouring layers, each with a device and a thread. The
// slices of `accumulate` are the micro-batches that fill the pipeline, and loss, metrics and
// gradients have the bits of the job on a single device. Used by one thread at a time, which waits
// for the stages and reports gradients (OnGradient); an error of a stage ends the others.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "program/gradient_program.h"
#include "tensor/ops.h"

namespace paracord {

class KerasProgram;

// Builds the job's model with the stages of its key `stages`, a device for each, in order.
// INVALID_ARGUMENT also for another number of devices; UNIMPLEMENTED if a device's memory is not
// the host's.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildStages(
    const Job& job, const Batch& schema, std::vector<std::unique_ptr<Ops>> devices);

// Joins programs built as the stages of a model (build.cc), in order. RESOURCE_EXHAUSTED if the
// system gives no thread.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeStageProgram(
    std::vector<std::unique_ptr<KerasProgram>> stages);

}  // namespace paracord
