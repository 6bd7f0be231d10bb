// The subset of HTTP/1.1 that daemons serve: GET without a body, one request per connection. Pure
// functions over bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace paracord {

struct HttpReply {
  int code = 200;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

// Parses a request's head, which ends with an empty line. Returns the path without the query, or
// the reply that refuses the request. With `own_host`, a request whose Host header names neither
// `own_host` nor localhost nor an IP address is refused: a foreign web page whose name resolves to
// this machine (DNS rebinding) could otherwise read the pages.
std::variant<std::string, HttpReply> ReadHead(
    std::string_view head, const std::optional<std::string>& own_host = std::nullopt);

// Returns the offset after the head's empty line, or npos if the head is incomplete.
size_t HeadEnd(std::string_view bytes);

// Returns the bytes of a reply. The reply's headers forbid browsers to load anything from
// elsewhere, to cache the page, or to show it in a frame.
std::string Encode(const HttpReply& reply);

}  // namespace paracord
