// What `--device` means on this build. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// "auto", "cpu" or "cuda:N" to the device that is used, as it is shown. INVALID_ARGUMENT: no such
// device, or this build cannot use it.
absl::StatusOr<std::string> ChooseDevice(const std::string& text);

}  // namespace paracord
