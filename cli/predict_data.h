// The records that `paracord predict` reads: the description to use from the job, with other files
// in its place. Pure.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// Returns the job's data.predict, else data.test, else data.train, with `files` (from --data)
// replacing the files in it: each a path or pattern, or NAME=PATH for arrays with names. Without
// `files`, data.train is not allowed. INVALID_ARGUMENT names what the description lacks, or the
// file that fits no key.
absl::StatusOr<DataSpec> PredictData(const Job& job, std::span<const std::string> files);

}  // namespace paracord
