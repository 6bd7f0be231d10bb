// Any data source as a TFRecord file of tf.train.Example, for TensorFlow and for the reader beside
// it (tf_record.h). Numbers become lists of floats (or of int64, where float32
// would not have all of them), strings lists of bytes. Features are called as
// the model's inputs and outputs, or "features" and "label" where there is one without a name;
// weights "weight", or "weight/" and the output.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"
#include "storage/tf_record_writer.h"

namespace paracord {

// The entry of a job's `data` that reads such a file; INVALID_ARGUMENT if two features would have
// one name.
absl::StatusOr<nlohmann::json> ExamplesSpec(const Batch& schema, const std::string& path);

// All records, in order. An error names file and record, also of a number that is not finite.
// False: an input that is not in `whole` turned out to hold whole numbers that float32 lacks; it is
// in `whole` now, whose inputs are written as integers, and the file is to be written anew.
absl::StatusOr<bool> WriteExamples(const DataSource& source, std::set<std::string>& whole,
                                   TfRecordWriter& writer);

}  // namespace paracord
