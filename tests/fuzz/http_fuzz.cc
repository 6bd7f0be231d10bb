// Parses the bytes as the head of an HTTP request. A prefix must not count as a complete head, and
// an accepted path must be valid.
#include <algorithm>
#include <string>
#include <variant>

#include "monitor/http_message.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const std::string bytes(input.Rest());
  const size_t end = HeadEnd(bytes);
  if (end != std::string_view::npos) {
    Demand(end <= bytes.size() && HeadEnd(bytes.substr(0, end)) == end, "a head ends in its bytes");
    Demand(HeadEnd(bytes.substr(0, end - 1)) == std::string_view::npos, "a head is whole or not");
  }
  const auto read = ReadHead(std::string_view(bytes).substr(0, end));
  if (const auto* const path = std::get_if<std::string>(&read)) {
    Demand(end != std::string_view::npos && path->starts_with("/"), "a path begins with /");
    const bool plain = std::all_of(path->begin(), path->end(),
                                   [](char c) { return c > ' ' && c < '\x7f' && c != '?'; });
    Demand(plain, "a path is printable and has no query");
  } else {
    const auto& refusal = std::get<HttpReply>(read);
    Demand(refusal.code >= 400 && !refusal.body.empty(), "a refusal says why");
    Demand(HeadEnd(Encode(refusal)) != std::string_view::npos, "a reply has a head");
  }
  return 0;
}

}  // namespace paracord::fuzz
