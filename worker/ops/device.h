// What `--device` means: the processor, or a GPU by the CUDA plug-in (cuda_plugin.h) if that can be
// loaded. No thread of its own.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/ops/ops.h"

namespace paracord {

// "auto", "cpu" or "cuda:N" to the device that is used, "cpu" or "cuda:N". Where auto does not find
// a GPU, `note` (may be null) says why in one line. INVALID_ARGUMENT: no such device, or it cannot
// be used.
absl::StatusOr<std::string> ChooseDevice(const std::string& text, std::string* note);

// Of a device that ChooseDevice gave. `threads`: those of the processor that may compute.
absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads);

}  // namespace paracord
