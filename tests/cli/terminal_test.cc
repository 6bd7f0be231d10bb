// Commands never write control characters from outside to the terminal.
#include "cli/terminal.h"

#include <catch2/catch.hpp>
#include <sstream>

namespace paracord {
namespace {

TEST_CASE("text goes on by whole lines or when flushed, without control characters") {
  std::ostringstream to;
  {
    TerminalStream stream(to);
    stream << "task \x1b[2Jworker:0\xc2";
    CHECK(to.str().empty());
    stream << "\x9b" << 7 << "\n\tb";
    CHECK(to.str() == "task \\x1b[2Jworker:0\\x9b7\n");
    stream << std::flush;
    CHECK(to.str().ends_with("\n\tb"));
    stream.put('c');
  }
  CHECK(to.str().ends_with("\n\tbc"));
  TerminalStream(to, /*at_once=*/true) << "\x7f";
  CHECK(to.str().ends_with("\\x7f"));
}

TEST_CASE("a stream that cannot be written to is known by its state") {
  std::ostringstream to;
  to.setstate(std::ios::badbit);
  TerminalStream stream(to);
  stream << "line\n";
  CHECK_FALSE(stream.flush());
}

}  // namespace
}  // namespace paracord
