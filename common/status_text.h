// The message of a status, and texts that go to another process.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Makes text safe to send in a message or with a gRPC status. It must be UTF-8, or the receiver
// cannot parse it, and short, because headers are limited. Other bytes become U+FFFD, and longer
// text is cut and ends with "...".
inline constexpr size_t kSendableBytesMax = 2048;
std::string Sendable(std::string_view text);
inline std::string Sendable(const absl::Status& status) { return Sendable(Text(status)); }

}  // namespace paracord
