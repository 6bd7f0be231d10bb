// Merges the traces of the daemons of a cluster (common/trace.h) into one file in Chrome's trace
// format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Checks that there is no file `path`, or an older trace. INVALID_ARGUMENT names --trace and the
// path.
absl::Status CheckTraceFile(Files& files, const std::string& path);

// Merges all files of `dir` into the file `out`, an absolute path, which is replaced as a whole. A
// line that a killed daemon left unfinished is dropped.
absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out);

}  // namespace paracord
