// The message of a status, and texts to send to other processes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Makes text safe to send in a message or with a gRPC status: receivers parse only UTF-8, and gRPC
// limits headers. Bytes that are not UTF-8 become U+FFFD; longer text is cut and ends with "...".
inline constexpr size_t kSendableBytesMax = 2048;
std::string Sendable(std::string_view text);
inline std::string Sendable(const absl::Status& status) { return Sendable(Text(status)); }

}  // namespace paracord
