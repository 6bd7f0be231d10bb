// Builds the Keras program on the device chosen by --device (tensor/device.h): a GPU, all GPUs, the
// processor, or several devices. With --device auto, computes on the processor if the GPU cannot be
// used. Starts no thread.
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
  std::string device;      // the result of ChooseDevice (tensor/device.h), such as "cuda:0"
  bool automatic = false;  // --device was "auto": if `device` fails, the processor computes
  int threads = 1;         // processor threads that may compute
  uint32_t turn = 0;       // the worker's index, which picks a GPU if a PJRT plug-in has several
};

struct DeviceProgram {
  std::unique_ptr<GradientProgram> program;
  std::string device;  // the device that computes
  std::string note;    // why the processor computes instead of a GPU; "": the chosen device does
};

// Makes the operations of a device; tests replace the function.
using MakeOpsFn =
    std::function<absl::StatusOr<std::unique_ptr<Ops>>(const std::string& device, int threads)>;

// Makes the group of several GPUs; tests replace the function.
using MakeGroupFn =
    std::function<absl::StatusOr<std::vector<Replica>>(const std::vector<std::string>& devices)>;

// Programs of several devices, each of which computes lanes of its own.
struct LanesOnDevices {
  std::vector<DeviceProgram> programs;  // one for each device
  // Adds up gradients by NCCL on the first devices; null: the devices add up nothing.
  std::shared_ptr<DeviceSum> sum;
};

// Builds the job's model on each of `devices`, two or more CUDA devices, for a job with
// `cross_device_ops` "nccl". The first 2^n devices, for the largest n, form a group that adds up
// gradients by NCCL. If the group cannot be made, the error names the key and the group's devices.
absl::StatusOr<LanesOnDevices> BuildLanesOnDevices(const Job& job, const Batch& schema,
                                                   const std::vector<std::string>& devices,
                                                   const MakeOpsFn& make = MakeOps,
                                                   const MakeGroupFn& make_group = MakeGpuGroup);

// Checks that --device names as many devices, of the processor or GPUs, as the model has stages
// (key `stages`). Accepts "cuda:all", because only the worker's machine, in BuildStagesOnDevices,
// knows the number of GPUs. INVALID_ARGUMENT names the key and --device.
absl::Status CheckStageDevices(const Job& job, const std::string& device);

// Builds a model cut into stages with BuildStages, one stage on each device of `use`, with
// `use.threads` threads for each stage.
absl::StatusOr<DeviceProgram> BuildStagesOnDevices(const Job& job, const Batch& schema,
                                                   const DeviceUse& use,
                                                   const MakeOpsFn& make = MakeOps);

// Builds the program by BuildKerasProgram on one device, or by BuildReplicas for "cuda:all". An
// error of the device, unlike one of the model, names the device. If the processor computes instead
// and fails, the error is the processor's.
absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make = MakeOps);

}  // namespace paracord
