// Builds the Keras program on the device or devices chosen by --device (tensor/device.h). With
// --device auto, the processor computes if the program cannot be built on the GPU.
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
  bool automatic = false;  // whether --device was "auto"
  int threads = 1;         // the number of processor threads that may compute
  uint32_t turn = 0;       // the worker's index: selects a plug-in's GPU if `device` has no number
};

struct DeviceProgram {
  std::unique_ptr<GradientProgram> program;
  std::string device;  // the device that computes
  std::string note;    // why the processor computes instead of the chosen GPU; "" if it does not
};

// A function that makes the operations of a device: MakeOps, or a substitute in tests.
using MakeOpsFn =
    std::function<absl::StatusOr<std::unique_ptr<Ops>>(const std::string& device, int threads)>;

// A function that makes the group of several GPUs: MakeGpuGroup, or a substitute in tests.
using MakeGroupFn =
    std::function<absl::StatusOr<std::vector<Replica>>(const std::vector<std::string>& devices)>;

// Programs of several devices, each of which computes lanes of its own.
struct LanesOnDevices {
  std::vector<DeviceProgram> programs;  // one for each device
  // Adds up gradients by NCCL on the first sum->devices() devices. Null: no gradients are added up
  // on the devices.
  std::shared_ptr<DeviceSum> sum;
};

// Builds the job's model on each of `devices`, two or more CUDA devices, for a job with
// `cross_device_ops` "nccl". The first devices, as many as the largest possible power of two, form
// a group that adds up gradients by NCCL. If the group cannot be made, the error names the key and
// the group's devices.
absl::StatusOr<LanesOnDevices> BuildLanesOnDevices(const Job& job, const Batch& schema,
                                                   const std::vector<std::string>& devices,
                                                   const MakeOpsFn& make = MakeOps,
                                                   const MakeGroupFn& make_group = MakeGpuGroup);

// Checks that `device`, the value of --device, names as many devices, of the processor or GPUs, as
// the model has stages (key `stages`). Accepts any device for a model of one stage, and "cuda:all",
// whose number BuildStagesOnDevices checks on the worker's machine. INVALID_ARGUMENT names the key
// and --device.
absl::Status CheckStageDevices(const Job& job, const std::string& device);

// Builds a model cut into stages with BuildStages, one stage on each device of `use`. A stage on
// the processor computes with `use.threads` threads.
absl::StatusOr<DeviceProgram> BuildStagesOnDevices(const Job& job, const Batch& schema,
                                                   const DeviceUse& use,
                                                   const MakeOpsFn& make = MakeOps);

// Builds the program by BuildKerasProgram on one device, or by BuildReplicas for "cuda:all". If a
// device cannot be used, the error names the device. With `use.automatic`, any error leads to a
// second attempt on the processor, whose error is returned if the second attempt fails as well.
absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make = MakeOps);

}  // namespace paracord
