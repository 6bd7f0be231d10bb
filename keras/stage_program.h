// Model parallelism: a model cut into stages of neighbouring layers, each with a device and a
// thread. The micro-batches that go through the stages are the slices into which the job's
// `accumulate` cuts a batch, and loss, metrics and gradients have the bits of the job on a single
// device. Values and gradients go from stage to stage through the host's memory. Used by one thread
// at a time, which waits for the stages and calls OnGradient's callback. If a stage fails, the
// error names the stage, and the other stages end.
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

// The device of a stage, and the device's name for errors.
struct StageDevice {
  std::string name;
  std::unique_ptr<Ops> ops;
};

// Builds the job's model, cut into stages by the job's key `stages`; devices[i] computes stage i.
// INVALID_ARGUMENT as from BuildKerasProgram, or for a wrong number of devices. RESOURCE_EXHAUSTED:
// a stage does not fit into its device's memory (the error names the stage), or there is no thread.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildStages(const Job& job, const Batch& schema,
                                                             std::vector<StageDevice> devices);

// A stage built by build.cc, and the stage's name for errors.
struct BuiltStage {
  std::string name;
  std::unique_ptr<KerasProgram> program;
};

// Joins all stages of a model, in their order. RESOURCE_EXHAUSTED if the system gives no thread.
absl::StatusOr<std::unique_ptr<GradientProgram>> MakeStageProgram(std::vector<BuiltStage> stages);

}  // namespace paracord
