// Builds what computes a job's gradients: its Keras model on a device, or its own program, in a
// child process or by a PJRT plug-in.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "keras/device_program.h"
#include "program/process_program.h"

namespace paracord {

// `use` is what a model computes on; `programs` says how a program of the job is run. The
// child is started by the calling thread, with which it dies.
absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs);
// Builds it on each device of a PJRT plug-in that `use` names, and else once.
absl::StatusOr<std::vector<DeviceProgram>> BuildJobPrograms(const Job& job, const Batch& schema,
                                                            const DeviceUse& use,
                                                            const ProgramUse& programs);

}  // namespace paracord
