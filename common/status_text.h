// The message of a status, and texts that may be sent to other processes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Returns a text that may be sent in a message or with a gRPC status: receivers accept only UTF-8,
// and gRPC limits headers. Bytes that are not UTF-8 become U+FFFD. If the result would have more
// than kSendableBytesMax - 3 bytes, the text is cut off and ends with "...".
inline constexpr size_t kSendableBytesMax = 2048;
std::string Sendable(std::string_view text);
inline std::string Sendable(const absl::Status& status) { return Sendable(Text(status)); }

}  // namespace paracord
