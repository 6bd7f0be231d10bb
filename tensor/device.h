// Chooses a program's device by `--device`: the processor, a GPU if the CUDA plug-in
// (cuda_plugin.h) can be loaded, or a PJRT plug-in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// Means all GPUs of this machine together, each computing a part of every batch.
inline constexpr std::string_view kAllGpus = "cuda:all";

// The purpose of a device. kTraining: for a training worker, which may use several devices
// together; kOneModel: for a program that runs one copy of a model on one device.
enum class DeviceFor { kTraining, kOneModel };

// Returns INVALID_ARGUMENT if the text is a value of --device (see ChooseDevice) on no machine.
// Does not look whether this machine has the device.
absl::Status CheckDeviceText(const std::string& text, DeviceFor use);

// Resolves the text of --device. "cpu" and "cuda:N" name one device. For training, "cpu:N" names N
// devices of the processor, "cuda:all" all GPUs and "cuda:N,M" some. The result is "cpu", "cuda:N",
// or the text itself for several devices. "auto" becomes a GPU, which workers take round-robin
// (`turn` is the worker's index), or "cpu" if there is none; `note`, unless null, then gets the
// reason in a line. "pjrt:PATH[:N]" is returned as it is, for the loader of PJRT plug-ins
// (program/pjrt_plugin.h). INVALID_ARGUMENT if the text is no value of --device, or names a device
// that does not exist or cannot be used.
absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn = 0);

// Returns the single devices in the result of ChooseDevice: "cpu" N times for "cpu:N", each GPU of
// this machine for "cuda:all". The error is the CUDA plug-in's.
absl::StatusOr<std::vector<std::string>> DevicesOf(const std::string& device);

// Names everything that determines the bits of gradients computed by the processor with `threads`
// threads, such as "cpu vectors 512 dnnl 2.6.3 isa 39 threads 1". For any other single device
// returns only its kind, such as "cuda".
std::string NumericsOf(const std::string& device, int threads);

// Makes the operations of "cpu", with `threads` computing threads, or of a GPU ("cuda:N").
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads);
// Makes the operations of several GPUs, each named "cuda:N" as in DevicesOf, as a group, which adds
// up arrays by NCCL. The error names what is missing: NCCL, a library or a device.
absl::StatusOr<std::vector<Replica>> MakeGpuGroup(const std::vector<std::string>& devices);

}  // namespace paracord
