// Finds the source of records for `paracord predict`: data.predict, data.test or data.train of the
// job, perhaps with other files. Opens no files.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// Returns the job's data.predict, else data.test, else data.train, with its files replaced by
// `files` (the values of --data): each a path or pattern, or NAME=PATH if the job names arrays by
// input. Of a mix takes the first source. INVALID_ARGUMENT: the result would be data.train or a mix
// with its own files, an array has no file, or a file fits no key.
absl::StatusOr<DataSpec> PredictData(const Job& job, std::span<const std::string> files);

}  // namespace paracord
