// Reads files of strangers with libraries that may crash on damage: in a child process, whose crash
// is only an error here. Called in main's thread, before other threads are started.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// Returns the result of `work` in a copy of this process. DATA_LOSS, naming `file`, if the copy
// dies.
absl::StatusOr<std::string> InChild(const std::string& file,
                                    const std::function<absl::StatusOr<std::string>()>& work);

}  // namespace paracord
