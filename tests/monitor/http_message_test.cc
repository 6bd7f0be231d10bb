// Requests of strangers are accepted or refused as a whole.
#include "monitor/http_message.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

std::string PathOf(const std::string& head) {
  const auto read = ReadHead(head);
  const std::string* const path = std::get_if<std::string>(&read);
  return path != nullptr ? *path : "";
}

int Refusal(const std::string& head) {
  const auto read = ReadHead(head);
  const HttpReply* const reply = std::get_if<HttpReply>(&read);
  return reply != nullptr ? reply->code : 0;
}

TEST_CASE("the path of a GET is had without its query") {
  CHECK(PathOf("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") == "/metrics");
  CHECK(PathOf("GET /a?b=c HTTP/1.1\r\nhOsT:\r\nAccept: */*\r\n\r\n") == "/a");
  CHECK(PathOf("GET / HTTP/1.0\r\n\r\n") == "/");
}

TEST_CASE("what is no request is refused with why") {
  CHECK(Refusal("") == 400);
  CHECK(Refusal("\r\n\r\n") == 400);
  CHECK(Refusal("GET / HTTP/1.1\r\n\r\n") == 400);  // HTTP/1.1 requires a Host
  CHECK(Refusal("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == 400);
  CHECK(Refusal("GET  / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(Refusal("GET x HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(Refusal("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(Refusal("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(Refusal("GET / HTTP/1.1\r\nHost a\r\n\r\n") == 400);
  CHECK(Refusal("GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n") == 400);
  CHECK(Refusal("GET / HTTP/2\r\nHost: a\r\n\r\n") == 505);
  for (const std::string method : {"POST", "PUT", "DELETE", "HEAD", "OPTIONS", "get"}) {
    CHECK(Refusal(method + " / HTTP/1.1\r\nHost: a\r\n\r\n") == 405);
  }
}

TEST_CASE("a head ends at its empty line") {
  CHECK(HeadEnd("GET / HTTP/1.0\r\n\r\nmore") == 18);
  CHECK(HeadEnd("GET / HTTP/1.0\r\n\r") == std::string::npos);
}

TEST_CASE("a reply has its length, and forbids what the page does not need") {
  const std::string bytes = Encode({200, "hello", "text/html"});
  CHECK(bytes.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n"));
  CHECK(bytes.find("Content-Security-Policy: default-src 'none'") != std::string::npos);
  CHECK(bytes.ends_with("\r\n\r\nhello"));
  CHECK(Encode({405, ""}).find("\r\nAllow: GET\r\n") != std::string::npos);
}

}  // namespace
}  // namespace paracord
