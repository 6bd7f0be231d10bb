// Reads files of unknown origin with libraries that may crash on damage: in a child process, so
// that a crash becomes an error here. Called in main's thread, before other threads are started.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// Returns the result of `work`, called in a copy of this process. DATA_LOSS, naming `file`: the
// copy crashed, or computed for more than 600 s.
absl::StatusOr<std::string> InChild(const std::string& file,
                                    const std::function<absl::StatusOr<std::string>()>& work);

}  // namespace paracord
