// Merges the spans written by the daemons of a cluster (common/trace.h) into one file in Chrome's
// trace format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Checks that `path` is free or holds an older trace. INVALID_ARGUMENT names --trace and the path.
absl::Status CheckTraceFile(Files& files, const std::string& path);

// Merges all files of `dir` into `out`, absolute, which is replaced as a whole. A line that a
// killed daemon left unfinished is dropped.
absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out);

}  // namespace paracord
