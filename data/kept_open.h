// Data files that are read again and again, perhaps more than a process may have open. The most
// recently used files stay open, up to a limit; a closed file is opened again when read.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// The most files kept open; fewer if that is more than a quarter of the descriptors (ulimit -n).
constexpr size_t kKeptOpenMax = 512;

// Opens the file once to learn its size and identity. A later read that finds another size or
// identity at the path returns DATA_LOSS. `files` must outlive the result.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenKept(Files& files, const std::string& path);

}  // namespace paracord
