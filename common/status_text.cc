#include "common/status_text.h"

#include <algorithm>

#include "common/utf8.h"

namespace paracord {

std::string Sendable(std::string_view text) {
  constexpr std::string_view kReplaced = "\xef\xbf\xbd", kMore = "...";
  std::string result;
  while (!text.empty()) {
    const uint32_t bytes = FirstUtf8(text).bytes;
    const std::string_view next = bytes == 0 ? kReplaced : text.substr(0, bytes);
    if (result.size() + next.size() + kMore.size() > kSendableBytesMax) return result.append(kMore);
    result.append(next);
    text.remove_prefix(std::max(bytes, 1u));
  }
  return result;
}

}  // namespace paracord
