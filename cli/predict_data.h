// Finds the source of records for `paracord predict`: the job's data.predict, data.test or
// data.train, with other files if the command names files. Opens no files.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// Returns the job's data.predict, else data.test, else data.train. If `files`, the values of
// --data, are not empty, they replace the files of the source: each value is a path or pattern, or
// NAME=PATH if the job has arrays by the names of inputs; and the first source of a mix stands for
// the mix. INVALID_ARGUMENT: without `files` the result would be data.train or a mix, an input has
// no file, or a value cannot be assigned.
absl::StatusOr<DataSpec> PredictData(const Job& job, std::span<const std::string> files);

}  // namespace paracord
