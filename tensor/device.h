// Chooses the device that a program computes on, by `--device`: the processor, or a GPU by the CUDA
// plug-in (cuda_plugin.h) if that can be loaded. These functions start no thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// The name of all the GPUs of this machine together; each computes a part of every batch.
inline constexpr std::string_view kAllGpus = "cuda:all";

// Says who asks for a device: only a worker that trains may use several GPUs together.
enum class DeviceFor { kTraining, kOneModel };

// Turns the text of --device ("auto", "cpu", "cuda:N" or, for training, "cpu:N" for N devices of
// the processor, "cuda:all" or "cuda:N,M") into what is used: "cpu", "cuda:N", or the text where
// that says several devices. A PJRT plug-in, "pjrt:PATH[:N]", is left to who loads it
// (program/pjrt_plugin.h). Workers with "auto"
// take the GPUs round-robin; `turn` is the worker's index. If "auto" finds no GPU, the result is
// "cpu" and `note`, unless null, gets the reason in one line. INVALID_ARGUMENT names a device that
// does not exist or cannot be used.
absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn = 0);

// Returns the single devices that the result of ChooseDevice says: "cpu" N times for "cpu:N", each
// GPU of this machine for "cuda:all". The error is that of the CUDA plug-in.
absl::StatusOr<std::vector<std::string>> DevicesOf(const std::string& device);

// Says what the bits of gradients depend on that a single device computes with so many of the
// processor's threads, such as "cpu vectors 512 dnnl 2.6.3 isa 39 threads 1".
std::string NumericsOf(const std::string& device, int threads);

// Makes the operations of a device that ChooseDevice returned, if that is a single one. `threads`
// is the number of the processor's threads that may compute.
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads);
// Makes the operations of all GPUs, as one group (kAllGpus).
absl::StatusOr<std::vector<Replica>> MakeAllGpus();

}  // namespace paracord
