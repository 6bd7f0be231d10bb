// The reader of CSV files: an entry of the table in data_source.cc. docs/data.md ("CSV") has the
// keys. Opening indexes the files in a pass that finds every syntax error; values are checked when
// read.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenCsv(Files& files, const DataSpec& spec);

}  // namespace paracord
