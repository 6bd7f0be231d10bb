// Builds the Keras program on the device chosen by --device (tensor/device.h): a GPU, all GPUs, or
// the processor. With "auto", falls back to the processor if the GPU cannot be used. Starts no
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/device_sum.h"
#include "program/gradient_program.h"
#include "tensor/device.h"

namespace paracord {

struct DeviceUse {
  std::string device;      // the result of ChooseDevice
  bool automatic = false;  // --device was auto, which takes the CPU where there is no GPU
  int threads = 1;         // processor threads allowed to compute
  uint32_t turn = 0;       // the worker's index; picks among unnamed devices
};

struct DeviceProgram {
  std::unique_ptr<GradientProgram> program;
  std::string device;  // the computing device
  std::string note;    // why another device computes than chosen, in a line; else empty
};

// Makes the operations of a device; tests replace the function.
using MakeOpsFn =
    std::function<absl::StatusOr<std::unique_ptr<Ops>>(const std::string& device, int threads)>;

// Makes the group of several GPUs; tests replace the function.
using MakeGroupFn =
    std::function<absl::StatusOr<std::vector<Replica>>(const std::vector<std::string>& devices)>;

// Programs of several devices that compute lanes, and the devices' sum.
struct LanesOnDevices {
  std::vector<DeviceProgram> programs;  // by device
  std::shared_ptr<DeviceSum> sum;       // by NCCL, on the first devices; null: by the processor
};

// Builds the job's model on each of `devices`, two or more CUDA devices, for a job with
// `cross_device_ops` "nccl": the first of them, the greatest power of two, add up gradients by
// NCCL. An error of the group names the key and the devices.
absl::StatusOr<LanesOnDevices> BuildLanesOnDevices(const Job& job, const Batch& schema,
                                                   const std::vector<std::string>& devices,
                                                   const MakeOpsFn& make = MakeOps,
                                                   const MakeGroupFn& make_group = MakeGpuGroup);

// Checks that the job's key `stages`, if present, fits --device: a device of the processor or a GPU
// for each stage. INVALID_ARGUMENT names both. How many GPUs "cuda:all" is, BuildStagesOnDevices
// finds on the worker's machine.
absl::Status CheckStageDevices(const Job& job, const std::string& device);

// Builds a model cut into stages with BuildStages, on the devices of `use`, each with its own
// threads.
absl::StatusOr<DeviceProgram> BuildStagesOnDevices(const Job& job, const Batch& schema,
                                                   const DeviceUse& use,
                                                   const MakeOpsFn& make = MakeOps);

// Builds the program by BuildKerasProgram or BuildReplicas. An error of the device itself names the
// device.
absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make = MakeOps);

}  // namespace paracord
