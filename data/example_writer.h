// Writes a data source as a TFRecord file of tf.train.Example, for TensorFlow and for Paracord's
// own reader (tf_record.h). Numbers are written as lists of floats or, for an input with numbers
// that float32 may not represent, as lists of int64; strings are written as lists of bytes. A
// feature has the name of the model's input or output, or "features" and "label" if that has no
// name. Weights are "weight", or "weight/" and the name of the output.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"
#include "storage/tf_record_writer.h"

namespace paracord {

// Returns the entry in a job's `data` that reads the written file. Returns INVALID_ARGUMENT if two
// features would have the same name.
absl::StatusOr<nlohmann::json> ExamplesSpec(const Batch& schema, const std::string& path);

// Writes all records in their order. The inputs in `whole` are written as int64. An error names
// file and record; a number that is not finite is an error, too. If another input turns out to have
// whole numbers that float32 may not represent, adds the input to `whole` and returns false: the
// caller must write the file again from the start.
absl::StatusOr<bool> WriteExamples(const DataSource& source, std::set<std::string>& whole,
                                   TfRecordWriter& writer);

}  // namespace paracord
