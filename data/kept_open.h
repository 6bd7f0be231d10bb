// Data files that are read again and again, of which there may be more than a process may have
// open. A bounded number of them, those read last, stay open; the others are opened anew for each
// read. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// At most so many files stay open, or fewer if the limit of descriptors (ulimit -n) is small.
constexpr size_t kKeptOpenMax = 512;

// Opens the file once to learn its size and identity. A later read that has to open it again and
// finds another file there returns DATA_LOSS. `files` must outlive the result.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenKept(Files& files, const std::string& path);

}  // namespace paracord
