// Tests texts of statuses that cross to another process.
#include "common/status_text.h"

#include <catch2/catch.hpp>

#include "common/utf8.h"

namespace paracord {
namespace {

TEST_CASE("text that is sent to a peer is UTF-8 and short, and says where it was cut") {
  CHECK(Sendable("").empty());
  CHECK(Sendable("caf\xc3\xa9: no such file") == "caf\xc3\xa9: no such file");
  CHECK(Sendable("caf\xe9.png") == "caf\xef\xbf\xbd.png");
  CHECK(Sendable("\xe2\x82") == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(Sendable(std::string_view("a\0b", 3)) == std::string_view("a\0b", 3));
  CHECK(Sendable(std::string(2045, 'x')) == std::string(2045, 'x'));
  for (const std::string character : {"x", "\xc3\xa9", "\xe2\x82\xac", "\xff"}) {
    std::string text;
    while (text.size() < 10000) text += character;
    const std::string sent = Sendable(text);
    CHECK(sent.size() <= kSendableBytesMax);
    CHECK(sent.size() > kSendableBytesMax - 4);
    CHECK(sent.ends_with("..."));
    CHECK(Utf8Prefix(sent) == sent.size());
  }
}

}  // namespace
}  // namespace paracord
