#include "common/one_line.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("text of a peer is one line that no terminal obeys") {
  CHECK(OneLine("", 10) == "");
  CHECK(OneLine("file 7: größer", 100) == "file 7: größer");
  CHECK(OneLine("a\nb\n", 100) == "a; b");
  CHECK(OneLine("a\r\x1b[2J\x7f", 100) == "a\\x0d\\x1b[2J\\x7f");
  CHECK(OneLine(std::string_view("a\0b", 3), 100) == "a\\x00b");
  CHECK(OneLine("a\u009b2J \u00a0", 100) == "a\\x9b2J \u00a0");
  CHECK(OneLine("a\xc2", 100) == "a\xc2");
}

TEST_CASE("text that is too long is cut at a character and says how long it was") {
  CHECK(OneLine("abcdef", 6) == "abcdef");
  CHECK(OneLine("abcdef", 4) == "abcd... (6 bytes)");
  CHECK(OneLine("abc\ndef", 4) == "abc... (7 bytes)");
  CHECK(OneLine("aéé", 2) == "a... (5 bytes)");
  CHECK(OneLine("éé", 1) == "... (4 bytes)");
  CHECK(OneLine("a\u009b\u009b", 2) == "a... (5 bytes)");
}

TEST_CASE(
    "what a terminal shows keeps its lines, without control characters, each of a bounded length") {
  CHECK(ForTerminal("") == "");
  CHECK(ForTerminal("a\n\nb\x1b[31m\n") == "a\n\nb\\x1b[31m\n");
  const std::string shown = ForTerminal(std::string(300000, '\0') + "\nend");
  CHECK(shown.size() < 4 * kTerminalLineMax + 50);
  CHECK(shown.ends_with("... (300000 bytes)\nend"));
}

TEST_CASE(
    "text of any length for a terminal keeps lines and tabs, and no other control character") {
  CHECK(TerminalText("a\tb\nc\r\x1b[2J\u009b1m\x7f größe\xc2") ==
        "a\tb\nc\\x0d\\x1b[2J\\x9b1m\\x7f größe\xc2");
  CHECK(TerminalText(std::string(100000, 'a')).size() == 100000);
}

TEST_CASE("a name is not empty, not long, and has no control character") {
  CHECK(IsName("dense/kernel größe"));
  CHECK(IsName(std::string(kNameBytesMax, 'n')));
  CHECK_FALSE(IsName(std::string(kNameBytesMax + 1, 'n')));
  for (const char* bad : {"", "a\nb", "\x1b[2J", "\u009b"}) CHECK_FALSE(IsName(bad));
}

}  // namespace
}  // namespace paracord
