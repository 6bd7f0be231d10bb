// Builds the code that computes a job's gradients: its Keras model on a device, or its own program,
// in a child process or by a PJRT plug-in.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "keras/device_program.h"
#include "program/process_program.h"

namespace paracord {

// `use` is the device for a model; `programs` says how to run a program of the job. The calling
// thread starts the child, which dies with this thread.
absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs);
// Builds the program on each device of a PJRT plug-in named by `use`, otherwise once.
absl::StatusOr<std::vector<DeviceProgram>> BuildJobPrograms(const Job& job, const Batch& schema,
                                                            const DeviceUse& use,
                                                            const ProgramUse& programs);

}  // namespace paracord
