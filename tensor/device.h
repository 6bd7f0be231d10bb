// What `--device` means: the processor, or a GPU by the CUDA plug-in (cuda_plugin.h) if that can be
// loaded. No thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// All the GPUs of this machine, each with a part of every batch.
inline constexpr std::string_view kAllGpus = "cuda:all";

// Whose --device it is: what trains may use several GPUs together.
enum class DeviceFor { kTraining, kOneModel };

// "auto", "cpu", "cuda:N" or, for training, "cuda:all" to what is used, "cpu", "cuda:N" or, where
// there are several GPUs, "cuda:all". Workers with auto take the GPUs in turn: the `turn`-th, by
// their index. Where auto does not find a GPU, `note` (may be null) says why in one line.
// INVALID_ARGUMENT: no such device, or it cannot be used.
absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn = 0);

// Of a device that ChooseDevice gave. `threads`: those of the processor that may compute.
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads);
// Of kAllGpus.
absl::StatusOr<std::vector<Replica>> MakeAllGpus();

}  // namespace paracord
