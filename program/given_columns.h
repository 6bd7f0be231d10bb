// Checks the inputs of a job's own program, of any kind: columns of batches must be as declared,
// and the job must not set what the program would have to apply itself. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// INVALID_ARGUMENT has a line for each job setting that a program has to apply itself.
absl::Status CheckOwnSettings(const Job& job);

// Checks a batch's column of kind `what` ("input") against the schema's shape. With `whole`, the
// column may hold integers beyond float32's precision.
absl::Status CheckGivenColumn(const char* what, const Column& schema, const Column& column,
                              uint32_t examples, bool whole);
// The batch must have as many columns of kind `what` as the schema.
absl::Status CheckColumnCount(const char* what, size_t schema, size_t batch);

// INVALID_ARGUMENT names a value with a fraction, lost by conversion to int64, with its column of
// kind `what` ("input") and its record.
absl::Status CheckNoFractions(const Batch& batch, const char* what, const Column& column);
// Converts a column of kind `what` to int64. INVALID_ARGUMENT as above, also for a value beyond
// int64 or too large to be an exact integer.
absl::Status ToWholeNumbers(const Batch& batch, const char* what, const Column& column,
                            std::vector<int64_t>& out);

}  // namespace paracord
