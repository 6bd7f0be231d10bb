// The message of a status, and texts for other processes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Makes text safe to send in a message or with a gRPC status: the receiver parses only UTF-8, and
// headers are limited. Other bytes become U+FFFD; longer text is cut and ends with "...".
inline constexpr size_t kSendableBytesMax = 2048;
std::string Sendable(std::string_view text);
inline std::string Sendable(const absl::Status& status) { return Sendable(Text(status)); }

}  // namespace paracord
