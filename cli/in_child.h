// Reads files of unknown origin with libraries that may crash on a damaged file. The reading is
// done in a child process, so that a crash becomes an error here. Called in main's thread, before
// other threads are started.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// Calls `work` in a child process, a copy of this process, and returns the result of `work`.
// DATA_LOSS, naming `file`: the child crashed, or took more than 600 s of CPU time.
absl::StatusOr<std::string> InChild(const std::string& file,
                                    const std::function<absl::StatusOr<std::string>()>& work);

}  // namespace paracord
