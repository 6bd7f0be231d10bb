// The reader of CSV files: an entry of the table in data_source.cc. What it takes from the job is
// in config/JOB.md ("CSV"). Files are indexed in one pass when it opens, which finds every mistake
// of syntax; values are checked when they are read.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenCsv(Files& files, const DataSpec& spec);

}  // namespace paracord
