// The records that `paracord predict` reads: which of a job's descriptions they have, and the files
// in place of its own. Pure.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// Returns the job's data.predict, else data.test, else data.train, with `files` (from --data) in
// place of its own. Each is a path or a pattern of paths; of arrays with names it is NAME=PATH.
// Without files the description must be of other data than those of training. INVALID_ARGUMENT
// names what the description lacks or what of `files` fits no key of it.
absl::StatusOr<DataSpec> PredictData(const Job& job, std::span<const std::string> files);

}  // namespace paracord
