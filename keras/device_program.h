// The Keras program on what --device says (tensor/device.h): a GPU, all of them, or the
// processor; with auto also on the processor where a GPU is there but of no use. No thread of its
// own.
#pragma once

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
  std::string device;      // that ChooseDevice gave
  bool automatic = false;  // it was asked for auto: the CPU will do
  int threads = 1;         // of the processor that may compute
};

struct DeviceProgram {
  std::unique_ptr<GradientProgram> program;
  std::string device;  // which computes
  std::string note;    // why that is another than was chosen, in a line; empty: it is not
};

// How the operations of one device come about.
using MakeOpsFn =
    std::function<absl::StatusOr<std::unique_ptr<Ops>>(const std::string& device, int threads)>;

// As BuildKerasProgram and BuildReplicas; an error of the device's own names the device.
absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make = MakeOps);

}  // namespace paracord
