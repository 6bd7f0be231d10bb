// The little of HTTP/1.1 that a monitored daemon speaks: GET without a body, one request a
// connection. Pure functions over bytes.
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

// The path of a request, without its query; or the reply that refuses the request. `head` is all
// up to the empty line, which it ends with. With `own_host`, the request has to be for that host,
// for localhost, or for an address: a page of another site, whose name its owner lets resolve to
// this machine, would otherwise read here as if it were this site's own.
std::variant<std::string, HttpReply> ReadHead(
    std::string_view head, const std::optional<std::string>& own_host = std::nullopt);

// Where the head ends, behind its empty line; npos: it goes on.
size_t HeadEnd(std::string_view bytes);

// The bytes of a reply. The page may load nothing from elsewhere, and nobody may keep or frame it.
std::string Encode(const HttpReply& reply);

}  // namespace paracord
