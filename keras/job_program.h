// Builds the code that computes a job's gradients: its Keras model on a device, or its own program,
// in a child process or by a PJRT plug-in.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "keras/device_program.h"
#include "program/process_program.h"

namespace paracord {

// `use` says on which device a Keras model is computed; `programs` says how a program of the job is
// run. A program in a child process is started by the calling thread, and dies with that thread.
absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs);
// Builds a program for each device of a PJRT plug-in that `use` names, if the job's model is
// StableHLO and `programs` compiles it; otherwise builds the program of BuildJobProgram alone.
absl::StatusOr<std::vector<DeviceProgram>> BuildJobPrograms(const Job& job, const Batch& schema,
                                                            const DeviceUse& use,
                                                            const ProgramUse& programs);

}  // namespace paracord
