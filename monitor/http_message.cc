#include "monitor/http_message.h"

#include <arpa/inet.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paracord {
namespace {

const char* PhraseOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Service Unavailable";
  }
}

HttpReply Malformed(const std::string& why) { return {400, why + "\n"}; }

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// Returns whether the Host header `host`, with or without a port, is localhost, an IP address or
// `own_host`.
bool IsOwnHost(std::string_view host, const std::string& own_host) {
  const bool bracketed = host.starts_with('[');
  const std::string name(host.substr(0, bracketed ? host.find(']') : host.find(':')));
  in6_addr address{};
  if (bracketed) return inet_pton(AF_INET6, name.substr(1).c_str(), &address) == 1;
  return absl::EqualsIgnoreCase(name, "localhost") ||
         inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         (!own_host.empty() && absl::EqualsIgnoreCase(name, own_host));
}

}  // namespace

size_t HeadEnd(std::string_view bytes) {
  const size_t at = bytes.find("\r\n\r\n");
  return at == std::string_view::npos ? at : at + 4;
}

std::variant<std::string, HttpReply> ReadHead(std::string_view head,
                                              const std::optional<std::string>& own_host) {
  if (!head.ends_with("\r\n\r\n")) return Malformed("the request's head has no end");
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(head.substr(0, head.size() - 4)), "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !IsToken(words[0])) {
    return Malformed("the request's first line is not METHOD PATH HTTP/1.1");
  }
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") {
    return HttpReply{505, "HTTP/1.1 and HTTP/1.0 are spoken here\n"};
  }
  std::vector<std::string> hosts;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == std::string::npos || !IsToken(lines[i].substr(0, colon))) {
      return Malformed("a header is not NAME: VALUE");
    }
    if (!absl::EqualsIgnoreCase(lines[i].substr(0, colon), "host")) continue;
    hosts.emplace_back(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
  }
  if (hosts.size() > 1 || (hosts.empty() && words[2] == "HTTP/1.1")) {
    return Malformed("the request needs one Host header");
  }
  if (own_host.has_value() && !hosts.empty() && !IsOwnHost(hosts[0], *own_host)) {
    return HttpReply{421, "the URL has to name localhost, an address, or the host of --http\n"};
  }
  if (words[0] != "GET") return HttpReply{405, "GET is the only method here\n"};
  if (!words[1].starts_with("/") || !IsPrintable(words[1])) {
    return Malformed("the path does not begin with /, or is not printable");
  }
  return words[1].substr(0, words[1].find('?'));
}

std::string Encode(const HttpReply& reply) {
  return absl::StrCat("HTTP/1.1 ", reply.code, " ", PhraseOf(reply.code),
                      "\r\nContent-Type: ", reply.type, "\r\nContent-Length: ", reply.body.size(),
                      reply.code == 405 ? "\r\nAllow: GET" : "",
                      "\r\nConnection: close"
                      "\r\nCache-Control: no-store"
                      "\r\nX-Content-Type-Options: nosniff"
                      "\r\nReferrer-Policy: no-referrer"
                      "\r\nContent-Security-Policy: default-src 'none'; connect-src 'self'; "
                      "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
                      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
                      "\r\n\r\n",
                      reply.body);
}

}  // namespace paracord
