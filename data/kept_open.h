// Data files that are read again and again, perhaps more files than a process may have open. The
// most recently used files stay open, up to a limit. Others are opened again when read.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// The most files kept open; at most a quarter of the process's descriptors (ulimit -n).
constexpr size_t kKeptOpenMax = 512;

// Opens the file to learn its size and identity. When a read has to open the file again and finds
// another size or identity, it returns DATA_LOSS. `files` must outlive the result.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenKept(Files& files, const std::string& path);

}  // namespace paracord
