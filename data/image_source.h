// The reader of JPEG and PNG files, each a record: an entry of the table in data_source.cc. What a
// file holds is decoded when it is read; opening only lists the files and takes their sizes, which
// with their names are the fingerprint. config/JOB.md has the keys.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(Files& files, const DataSpec& spec);

}  // namespace paracord
