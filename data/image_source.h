// The reader of JPEG and PNG files, each of which is a record: an entry of the table in
// data_source.cc. Opening lists the files and decodes only the first few; later files are decoded
// when read. The fingerprint covers the files' names, sizes and classes. docs/data-formats.md has
// the keys.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(Files& files, const DataSpec& spec);

}  // namespace paracord
