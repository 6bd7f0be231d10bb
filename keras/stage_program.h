// A model in stages of neighbouring layers, each computed by a device and a thread of its own:
// model parallelism. The micro-batches that fill the pipeline are the slices of `accumulate`, and
// loss, metrics and gradients have the bits of the same job on one device. Used by one thread at a
// time, which waits for the stages and reports gradients (OnGradient); an error of one stage ends
// the others.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "program/gradient_program.h"
#include "tensor/ops.h"

namespace paracord {

class KerasProgram;

// Builds the job's model like BuildKerasProgram, the stages that its key `stages` says on a device
// each, in this order. INVALID_ARGUMENT also if there are more or fewer devices; UNIMPLEMENTED if
// the memory of one is not the host's.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildStages(
    const Job& job, const Batch& schema, std::vector<std::unique_ptr<Ops>> devices);

// Joins programs that were built as the stages of one model (build.cc), in their order.
// RESOURCE_EXHAUSTED if the system has no thread for one.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeStageProgram(
    std::vector<std::unique_ptr<KerasProgram>> stages);

}  // namespace paracord
