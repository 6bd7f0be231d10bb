// Data files that are read again and again, perhaps more than a process may have open. The most
// recently used, up to a limit, stay open; other files are reopened for each read. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// Limit of files kept open, lower if the limit of descriptors (ulimit -n) is small.
constexpr size_t kKeptOpenMax = 512;

// Opens the file once to learn its size and identity. A later read that reopens the path and finds
// another file returns DATA_LOSS. `files` must outlive the result.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenKept(Files& files, const std::string& path);

}  // namespace paracord
