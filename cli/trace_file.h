// Merges the traces of the daemons of a cluster (common/trace.h) into one file in Chrome's trace
// format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Checks that the file `path` does not exist, or is a trace. INVALID_ARGUMENT names --trace and the
// path.
absl::Status CheckTraceFile(Files& files, const std::string& path);

// Merges all files of the folder `dir` into the file `out`, an absolute path, which is replaced as
// a whole. Drops the last line of a file if a killed daemon left the line unfinished.
absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out);

}  // namespace paracord
