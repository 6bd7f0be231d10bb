// The message of a status, and texts that go to another process.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

// What may travel as a string of a message, or with a gRPC status: UTF-8, or whoever gets it cannot
// parse it, and short, or it is lost with the headers that are limited. Other bytes become U+FFFD
// and what is longer ends with "...".
inline constexpr size_t kSendableBytesMax = 2048;
std::string Sendable(std::string_view text);
inline std::string Sendable(const absl::Status& status) { return Sendable(Text(status)); }

}  // namespace paracord
