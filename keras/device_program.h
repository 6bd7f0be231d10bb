// Builds the Keras program on the device that --device chose (tensor/device.h): a GPU, all of them,
// or the processor. With "auto" it falls back to the processor if the GPU cannot be used. It starts
// no thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "tensor/device.h"

namespace paracord {

struct DeviceUse {
  std::string device;      // as ChooseDevice returned it
  bool automatic = false;  // --device was auto, so that the CPU will do
  int threads = 1;         // number of the processor's threads that may compute
  uint32_t turn = 0;       // the worker's index, by which several share what was not named
};

struct DeviceProgram {
  std::unique_ptr<GradientProgram> program;
  std::string device;  // the one that computes
  std::string note;    // why it is not the chosen one, in one line; empty if it is
};

// Makes the operations of one device; tests replace it.
using MakeOpsFn =
    std::function<absl::StatusOr<std::unique_ptr<Ops>>(const std::string& device, int threads)>;

// Checks that the job's key `stages`, if it has one, fits what --device names: a device of the
// processor for each stage. INVALID_ARGUMENT names both.
absl::Status CheckStageDevices(const Job& job, const std::string& device);

// Builds a model that is cut into stages by BuildStages, on the devices that `use` names, each with
// its threads.
absl::StatusOr<DeviceProgram> BuildStagesOnDevices(const Job& job, const Batch& schema,
                                                   const DeviceUse& use,
                                                   const MakeOpsFn& make = MakeOps);

// Builds the program by BuildKerasProgram or BuildReplicas. An error of the device itself names the
// device.
absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make = MakeOps);

}  // namespace paracord
