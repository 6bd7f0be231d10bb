// The reader of JPEG and PNG files, a record each: an entry of the table in data_source.cc. Opening
// lists the files and decodes only the first few; names, sizes and classes of the files are the
// fingerprint. Later files are decoded when read. docs/data-formats.md has the keys.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(Files& files, const DataSpec& spec);

}  // namespace paracord
