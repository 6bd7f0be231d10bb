// The status of a request above a limit that waiting and repeating do not change: a message size, a
// share of the memory, a number of rows. The data of the request may be right: its batch does not
// count as failed. The code is OUT_OF_RANGE, on the wire as well (docs/wire.md); the message names
// the limit and the setting to raise.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paracord {

inline absl::Status LimitError(absl::string_view message) { return absl::OutOfRangeError(message); }
inline bool IsLimit(const absl::Status& status) { return absl::IsOutOfRange(status); }

}  // namespace paracord
