// Chooses a program's device by `--device`: the processor, or a GPU by the CUDA plug-in
// (cuda_plugin.h) if it can be loaded. These functions start no thread.
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

// INVALID_ARGUMENT if the text is no value of --device (see ChooseDevice) on any machine. Does not
// look whether this machine has the device.
absl::Status CheckDeviceText(const std::string& text, DeviceFor use);

// Resolves the text of --device ("auto", "cpu", "cuda:N" or, for training, "cpu:N" for N devices of
// the processor, "cuda:all" or "cuda:N,M") to "cpu", "cuda:N", or the text itself for several
// devices. A PJRT plug-in, "pjrt:PATH[:N]", is left to its loader (program/pjrt_plugin.h). Workers
// with "auto" take the GPUs round-robin; `turn` is the worker's index. If "auto" finds no GPU, the
// result is "cpu" and `note`, unless null, gets the reason in a line. INVALID_ARGUMENT if the text
// is no value of --device, or names a device that does not exist or cannot be used.
absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn = 0);

// Returns the single devices in the result of ChooseDevice: "cpu" N times for "cpu:N", each GPU of
// this machine for "cuda:all". The error is the CUDA plug-in's.
absl::StatusOr<std::vector<std::string>> DevicesOf(const std::string& device);

// Names everything that determines the bits of gradients computed by the processor with `threads`
// threads, such as "cpu vectors 512 dnnl 2.6.3 isa 39 threads 1". For any other single device
// returns only its kind, such as "cuda".
std::string NumericsOf(const std::string& device, int threads);

// Makes the operations of "cpu" or a "cuda:N". `threads` is the number of computing threads of
// "cpu".
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads);
// Makes the operations of several GPUs ("cuda:N" each, as DevicesOf names them) as a group, which
// adds up arrays by NCCL. The error names what is missing: NCCL, a library or a device.
absl::StatusOr<std::vector<Replica>> MakeGpuGroup(const std::vector<std::string>& devices);

}  // namespace paracord
