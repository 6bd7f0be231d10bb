// Puts the spans that the daemons of a cluster wrote (common/trace.h) together in one file of
// Chrome's trace format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// All files of `dir` into `out`, which is replaced. What a killed daemon left unfinished is left
// out.
absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out);

}  // namespace paracord
