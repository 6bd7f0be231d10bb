// The status of a request that exceeds a limit, such as a message size, a share of the memory or a
// number of rows: to wait and to repeat the request would not help. The gradients in the request
// may be right, so its batch does not count as failed. The code is OUT_OF_RANGE, also in messages
// (docs/wire.md). The text names the limit and the setting to raise.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paracord {

inline absl::Status LimitError(absl::string_view message) { return absl::OutOfRangeError(message); }
inline bool IsLimit(const absl::Status& status) { return absl::IsOutOfRange(status); }

}  // namespace paracord
