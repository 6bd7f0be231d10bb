// Checks for jobs whose model is a program, be it a process or StableHLO: the columns of a batch
// must be as in the schema, and the job must not set what the program decides itself. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// INVALID_ARGUMENT, with a line for each, if the job sets `accumulate`, `precision`, `loss_weights`
// or `class_weight`, which a program has to apply itself, to other than the default.
absl::Status CheckOwnSettings(const Job& job);

// Checks that a batch's column has the shape of the schema's column. `what`, here and below: the
// kind of the column, such as "input", for texts of errors. `whole`: the program takes the column
// as integers, so the column may hold integers from 2^24 on, of which float32 has not every one.
absl::Status CheckGivenColumn(const char* what, const Column& schema, const Column& column,
                              uint32_t examples, bool whole);
// Checks that the batch has as many columns of the kind `what` as the schema.
absl::Status CheckColumnCount(const char* what, size_t schema, size_t batch);

// INVALID_ARGUMENT if a value has a fraction; the error names the value, its column and its record.
absl::Status CheckNoFractions(const Batch& batch, const char* what, const Column& column);
// Converts a column to int64. INVALID_ARGUMENT if a value has a fraction, is not finite, is beyond
// int64, or is a float32 too large to be exact; the error names value, column and record.
absl::Status ToWholeNumbers(const Batch& batch, const char* what, const Column& column,
                            std::vector<int64_t>& out);

}  // namespace paracord
