// Builds the code that computes a job's gradients: the job's Keras model on a device, a program of
// the job in a child process, or a StableHLO model of the job by a PJRT plug-in.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "keras/device_program.h"
#include "program/process_program.h"

namespace paracord {

// `use` says which device computes; `programs` says how a program of the job is run. A child
// process is started by the calling thread, and is killed when that thread ends.
absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs);
// If the job's model is StableHLO and programs.compiles is true, builds a program for each device
// of a PJRT plug-in that `use` names; otherwise builds the one program of BuildJobProgram.
absl::StatusOr<std::vector<DeviceProgram>> BuildJobPrograms(const Job& job, const Batch& schema,
                                                            const DeviceUse& use,
                                                            const ProgramUse& programs);

}  // namespace paracord
