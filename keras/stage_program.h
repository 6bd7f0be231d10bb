// Model parallelism: a model in stages of neighbouring layers, each with a device and a thread. The
// slices of `accumulate` are the micro-batches that fill the pipeline, and loss, metrics and
// gradients have the bits of the job on a single device. What a stage takes of another goes through
// the host's memory. Used by one thread at a time, which waits for the stages and reports gradients
// (OnGradient); an error of a stage names the stage and ends the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "program/gradient_program.h"
#include "tensor/ops.h"

namespace paracord {

class KerasProgram;

// The device of a stage, and its name for errors.
struct StageDevice {
  std::string name;
  std::unique_ptr<Ops> ops;
};

// Builds the job's model with the stages of its key `stages`, a device for each, in order.
// INVALID_ARGUMENT also for another number of devices; RESOURCE_EXHAUSTED names a stage that does
// not fit into its device's memory.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildStages(const Job& job, const Batch& schema,
                                                             std::vector<StageDevice> devices);

// A stage built by build.cc, and its name for errors.
struct BuiltStage {
  std::string name;
  std::unique_ptr<KerasProgram> program;
};

// Joins the stages of a model, in order. RESOURCE_EXHAUSTED if the system gives no thread.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeStageProgram(std::vector<BuiltStage> stages);

}  // namespace paracord
