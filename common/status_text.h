// The message of a status as a string of its own.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace paracord {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

}  // namespace paracord
