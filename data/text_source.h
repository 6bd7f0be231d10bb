// The reader of text: an entry of the table in data_source.cc. Without `labels` a record is a
// window of tokens, and the targets are each token's successor. Windows begin every `stride` tokens
// and never span two files. With `labels` a record is a line "label<TAB>text", and the target is
// the label's number; the text is cut off or padded with 0 to the window. docs/data-formats.md has
// the keys.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenText(Files& files, const DataSpec& spec);

}  // namespace paracord
