// Checks what a job gives to a program of its own, whatever runs it: columns of batches, which must
// be as declared, and no settings that the program has to apply itself. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// INVALID_ARGUMENT has a line for each of the job's settings that a program has to apply itself.
absl::Status CheckOwnSettings(const Job& job);

// Checks that a column of `what` ("input") of a batch has the shape of the schema's; one that the
// program takes as `whole` numbers may have such that float32 lacks.
absl::Status CheckGivenColumn(const char* what, const Column& schema, const Column& column,
                              uint32_t examples, bool whole);
// The batch must have as many columns of `what` as the schema.
absl::Status CheckColumnCount(const char* what, size_t schema, size_t batch);

// INVALID_ARGUMENT names a value of a column of `what` ("input") that has a fraction, which int64
// would cut off, its column and its record.
absl::Status CheckNoFractions(const Batch& batch, const char* what, const Column& column);
// Converts a column of `what` to int64. INVALID_ARGUMENT is as above, also of a value that is no
// certain whole number or beyond int64.
absl::Status ToWholeNumbers(const Batch& batch, const char* what, const Column& column,
                            std::vector<int64_t>& out);

}  // namespace paracord
