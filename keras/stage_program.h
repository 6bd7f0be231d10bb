// Model parallelism: a model cut into stages of neighbouring layers, each with a device and a
// thread. The slices of the job's `accumulate` are the micro-batches that fill the pipeline, and
// loss, metrics and gradients have the bits of the job on a single device. Values and gradients go
// from stage to stage through the host's memory. Used by one thread at a time, which waits for the
// stages and calls OnGradient's callback; an error of a stage names the stage and ends the others.
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

// Builds the job's model, cut into stages by its key `stages`, with a device for each stage, in
// order. INVALID_ARGUMENT as from BuildKerasProgram, or for a wrong number of devices. Other errors
// name the stage: RESOURCE_EXHAUSTED if a stage does not fit into the device's memory.
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
