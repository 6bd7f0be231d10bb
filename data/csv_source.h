// The reader of CSV files: an entry of the table in data_source.cc. docs/data.md ("CSV") has the
// keys. Opening indexes the files, which finds every syntax error, and checks the values of the
// first records; later values are checked when read.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenCsv(Files& files, const DataSpec& spec);

}  // namespace paracord
