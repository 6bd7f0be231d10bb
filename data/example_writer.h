// Writes any data source as a TFRecord file of tf.train.Example, for TensorFlow and for our own
// reader (tf_record.h). Numbers become lists of floats (of int64 for an input with numbers beyond
// float32's precision), and strings lists of bytes. A feature is named after the model's input or
// output, or "features" and "label" if unnamed; weights are "weight", or "weight/" and the output.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"
#include "storage/tf_record_writer.h"

namespace paracord {

// Returns the entry of a job's `data` for reading the written file; INVALID_ARGUMENT if two
// features would get equal names.
absl::StatusOr<nlohmann::json> ExamplesSpec(const Batch& schema, const std::string& path);

// Writes all records in order. The inputs in `whole` are written as int64. An error names file and
// record, also for a number that is not finite. If another input has whole numbers beyond float32's
// precision, adds it to `whole` and returns false: the caller must write the file anew.
absl::StatusOr<bool> WriteExamples(const DataSource& source, std::set<std::string>& whole,
                                   TfRecordWriter& writer);

}  // namespace paracord
