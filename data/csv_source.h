// The reader of CSV files: an entry of the table in data_source.cc. docs/data.md ("CSV") has the
// keys of the job. Opening indexes the files, which finds every syntax error unless the job allows
// bad records, and checks the first records. Values of later records are checked when read.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenCsv(Files& files, const DataSpec& spec);

}  // namespace paracord
