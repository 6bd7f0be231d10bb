// Data files that are read again and again, of which there may be more than a process may have
// open: each is opened anew when it is read, and the ones read last stay open, a bounded number in
// the process. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// At most so many stay open, fewer where the limit of descriptors (ulimit -n) is small.
constexpr size_t kKeptOpenMax = 512;

// The file is opened once to know what it is. A later read that has to open it again and finds
// another file there is DATA_LOSS. `files` outlives what is returned.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenKept(Files& files, const std::string& path);

}  // namespace paracord
