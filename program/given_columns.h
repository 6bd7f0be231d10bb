// Checks for programs of jobs, of any kind: the columns of a batch must be as in the schema, and
// the job must not have settings that only the program could apply. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// INVALID_ARGUMENT has a line for each setting of the job that only the program could apply.
absl::Status CheckOwnSettings(const Job& job);

// Checks a batch's column against the shape of the schema's column. `what`, here and below: the
// kind of the column ("input"), for messages. `whole`: the program takes integers, so the column
// may hold integers that float32 lacks.
absl::Status CheckGivenColumn(const char* what, const Column& schema, const Column& column,
                              uint32_t examples, bool whole);
// Checks that the batch has as many columns of the kind `what` as the schema.
absl::Status CheckColumnCount(const char* what, size_t schema, size_t batch);

// INVALID_ARGUMENT if a value has a fraction, which int64 would lose; the error names the value,
// its column and its record.
absl::Status CheckNoFractions(const Batch& batch, const char* what, const Column& column);
// Converts a column to int64. INVALID_ARGUMENT, as above, if a value has a fraction, is not finite,
// is beyond int64, or is a float32 too large to be exact.
absl::Status ToWholeNumbers(const Batch& batch, const char* what, const Column& column,
                            std::vector<int64_t>& out);

}  // namespace paracord
