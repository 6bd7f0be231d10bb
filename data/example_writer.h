// Writes any data source as a TFRecord file of tf.train.Example, for TensorFlow and for the reader
// beside it (tf_record.h). Numbers become lists of floats (or of int64, where float32 cannot
// represent all of them), and strings lists of bytes. A feature has the name of the model's input
// or output, or "features" and "label" if that has none; weights are "weight", or "weight/" and the
// output.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"
#include "storage/tf_record_writer.h"

namespace paracord {

// Returns the entry of a job's `data` that reads such a file; INVALID_ARGUMENT if two features
// would have one name.
absl::StatusOr<nlohmann::json> ExamplesSpec(const Batch& schema, const std::string& path);

// Writes all records in order. An error names file and record, also for a number that is not
// finite. Returns false if an input outside of `whole` turned out to hold whole numbers that
// float32 cannot represent: it is added to `whole`, whose inputs are written as int64, and the
// caller must write the file anew.
absl::StatusOr<bool> WriteExamples(const DataSource& source, std::set<std::string>& whole,
                                   TfRecordWriter& writer);

}  // namespace paracord
