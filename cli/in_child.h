// Work on a file of strangers by a library that damaged files make crash: it is done in a child
// process, so that its crash is an error here. Called in main's thread, before others are started.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// Returns what `work` returns in a copy of this process. DATA_LOSS if the copy dies, which names
// `file`.
absl::StatusOr<std::string> InChild(const std::string& file,
                                    const std::function<absl::StatusOr<std::string>()>& work);

}  // namespace paracord
