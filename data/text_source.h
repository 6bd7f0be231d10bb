// The reader of text: an entry of the table in data_source.cc. Without `labels` a record is a
// window of tokens, and its targets are the successors of these tokens. A window begins every
// `stride` tokens, and none spans two files. With `labels` a record is a line "label<TAB>text", its
// target is the number of the label, and the text is cut off or padded with 0 to the length of the
// window. docs/data-formats.md has the keys.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenText(Files& files, const DataSpec& spec);

}  // namespace paracord
