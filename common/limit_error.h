// The status of a request that exceeds a limit which waiting and repeating do not change: a
// message, a share of the memory, a number of rows. It says nothing of the data in the request. Its
// code is OUT_OF_RANGE, on the wire as well (docs/wire.md); the message names the limit and what
// to set.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paracord {

inline absl::Status LimitError(absl::string_view message) { return absl::OutOfRangeError(message); }
inline bool IsLimit(const absl::Status& status) { return absl::IsOutOfRange(status); }

}  // namespace paracord
