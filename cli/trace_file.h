// Puts the spans that the daemons of a cluster wrote (common/trace.h) together in one file of
// Chrome's trace format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Whether nothing is at `path` but a trace. INVALID_ARGUMENT names --trace and the path.
absl::Status CheckTraceFile(Files& files, const std::string& path);

// All files of `dir` into `out`, absolute, which is replaced as a whole. What a killed daemon left
// unfinished is left out.
absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out);

}  // namespace paracord
