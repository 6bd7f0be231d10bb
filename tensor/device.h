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

// Turns the text of --device ("auto", "cpu", "cuda:N" or, for training, "cuda:all") into the device
// that is used: "cpu", "cuda:N" or, where there are several GPUs, "cuda:all". A PJRT plug-in,
// "pjrt:PATH[:N]", is left to who loads it (program/pjrt_plugin.h). Workers with "auto"
// take the GPUs round-robin; `turn` is the worker's index. If "auto" finds no GPU, the result is
// "cpu" and `note`, unless null, gets the reason in one line. INVALID_ARGUMENT names a device that
// does not exist or cannot be used.
absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn = 0);

// Makes the operations of a device that ChooseDevice returned, except kAllGpus. `threads` is the
// number of the processor's threads that may compute.
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads);
// Makes the operations of all GPUs, as one group (kAllGpus).
absl::StatusOr<std::vector<Replica>> MakeAllGpus();

}  // namespace paracord
